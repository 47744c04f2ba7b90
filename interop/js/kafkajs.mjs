// kafkajs against a broker: admin, producer and consumer groups. usage: node kafkajs.mjs HOST:PORT
// Prints one line "ok NAME" or "FAIL NAME: reason" per check.
import kafkajs from 'kafkajs'
import assert from 'node:assert/strict'

const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = kafkajs
const kafka = new Kafka({ clientId: 'interop', brokers: [process.argv[2]], logLevel: logLevel.NOTHING,
  retry: { retries: 3 } })
const topic = 'kafkajs'
const admin = kafka.admin()

async function check (name, run) {
  try {
    await run()
    console.log(`ok ${name}`)
  } catch (e) {
    console.log(`FAIL ${name}: ${String(e.stack).replaceAll('\n', ' | ')}`)
  }
}

const offsets = async () => Object.fromEntries((await admin.fetchTopicOffsets(topic)).map(o => [o.partition, o]))

await admin.connect()
await check('create topic', async () => {
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 3,
    configEntries: [{ name: 'retention.ms', value: '7654321' }] }] }), true)
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 3 }] }), false)
  assert.ok((await admin.listTopics()).includes(topic))
})
await check('metadata', async () => {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  assert.equal(topics[0].partitions.length, 3)
  assert.ok(topics[0].partitions.every(p => p.leader === 1 && p.isr.length === 1))
  const cluster = await admin.describeCluster()
  assert.equal(cluster.brokers.length, 1)
  assert.ok(cluster.clusterId.length > 0)
})
await check('produce', async () => {
  const producer = kafka.producer()
  await producer.connect()
  const sent = await producer.send({ topic, acks: -1, messages: [
    { partition: 0, key: 'k', value: 'v', headers: { h: 'x', many: ['1', '2'] } },
    { partition: 0, key: 'gone', value: null }, { partition: 1, value: '' }] })
  assert.deepEqual(sent.map(r => [r.partition, r.errorCode, r.baseOffset]).sort(), [[0, 0, '0'], [1, 0, '0']])
  for (const acks of [0, 1, -1]) await producer.send({ topic, acks, messages: [{ partition: 2, value: 'a' }] })
  await producer.send({ topic, compression: CompressionTypes.GZIP,
    messages: Array.from({ length: 500 }, (_, i) => ({ partition: 1, value: `value ${i}` })) })
  await producer.sendBatch({ topicMessages: [{ topic, messages: [{ key: 'same', value: '1' }, { key: 'same', value: '2' }] }] })
  await producer.disconnect()
})
await check('idempotent produce', async () => {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let i = 0; i < 20; i++) await producer.send({ topic, messages: [{ partition: 2, value: `${i}` }] })
  await producer.disconnect()
})
await check('offsets', async () => {
  const by = await offsets()
  assert.equal(by[0].low, '0')
  const sum = [0, 1, 2].reduce((n, p) => n + Number(by[p].high), 0)
  assert.equal(sum, 3 + 3 + 500 + 2 + 20)
  const at = await admin.fetchTopicOffsetsByTimestamp(topic, 1)
  assert.ok(at.every(o => o.offset === '0'))
})
await check('delete records', async () => {
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: '100' }] })
  assert.equal((await offsets())[1].low, '100')
})
await check('configs', async () => {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const get = async () => (await admin.describeConfigs({ resources: [{ ...resource,
    configNames: ['retention.ms'] }], includeSynonyms: true })).resources[0].configEntries
  assert.equal((await get())[0].configValue, '7654321')
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '1111111' }] }] })
  assert.equal((await get())[0].configValue, '1111111')
})
await check('partitions', async () => {
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
  // Apache Kafka answers before the broker leads the new partitions.
  for (let i = 0, n = 0; n !== 5; i++) {
    n = (await admin.fetchTopicOffsets(topic).catch(e => { if (i === 50) throw e; return [] })).length
    await new Promise(resolve => setTimeout(resolve, 20))
  }
})
const consumers = []
const records = 60
// member starts a consumer of a group that notes what it was given; it joins in the background.
async function member (groupId, options = {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10000,
    maxWaitTimeInMs: 200, ...options })
  const m = { consumer, got: [], assignment: null, memberId: null }
  consumer.on(consumer.events.GROUP_JOIN, e => {
    m.assignment = e.payload.memberAssignment['kafkajs-groups'] ?? []
    m.memberId = e.payload.memberId
  })
  await consumer.connect()
  await consumer.subscribe({ topic: 'kafkajs-groups', fromBeginning: true })
  await consumer.run({ autoCommitInterval: 300,
    eachMessage: async ({ partition, message }) => { m.got.push(`${partition}/${message.offset}`) } })
  consumers.push(consumer)
  return m
}
async function until (what, holds) {
  for (let i = 0; !await holds(); i++) {
    assert.ok(i < 300, `${what} does not come`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}
const committed = async groupId => (await admin.fetchOffsets({ groupId, topics: ['kafkajs-groups'] }))[0].partitions
  .reduce((n, p) => n + Math.max(0, Number(p.offset)), 0)

await check('group consume and commit', async () => {
  await admin.createTopics({ topics: [{ topic: 'kafkajs-groups', numPartitions: 4 }], waitForLeaders: true })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 'kafkajs-groups',
    messages: Array.from({ length: records }, (_, i) => ({ partition: i % 4, value: `${i}` })) })
  await producer.disconnect()
  const m = await member('js')
  await until('every record', () => m.got.length === records)
  assert.equal(new Set(m.got).size, records)
  await until('the commit', async () => await committed('js') === records)
})
await check('group rebalance', async () => {
  const first = await member('js-two')
  await until('the first assignment', () => first.assignment?.length === 4)
  const second = await member('js-two')
  await until('the sharing', () => first.assignment.length === 2 && second.assignment?.length === 2)
  const { groups } = await admin.describeGroups(['js-two'])
  assert.deepEqual([groups[0].state, groups[0].protocol, groups[0].members.length], ['Stable', 'RoundRobinAssigner', 2])
  await second.consumer.stop()
  await second.consumer.disconnect()
  await until('the rest', () => first.assignment.length === 4)
})
await check('group administration', async () => {
  const { groups } = await admin.listGroups()
  assert.ok(groups.some(g => g.groupId === 'js' && g.protocolType === 'consumer'))
  await assert.rejects(admin.deleteGroups(['js']), e => e.groups[0].error.type === 'NON_EMPTY_GROUP')
  for (const c of consumers) await c.disconnect().catch(() => {})
  await admin.setOffsets({ groupId: 'js', topic: 'kafkajs-groups', partitions: [{ partition: 0, offset: '3' }] })
  assert.equal(await committed('js'), records - 15 + 3)
  await admin.resetOffsets({ groupId: 'js', topic: 'kafkajs-groups', earliest: true })
  await until('the reset', async () => await committed('js') === 0)
  await admin.deleteGroups(['js', 'js-two'])
  assert.ok(!(await admin.listGroups()).groups.some(g => g.groupId === 'js'))
})
await check('transactions', async () => {
  const topic = 'kafkajs-txn'
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true })
  const open = async () => {
    const p = kafka.producer({ transactionalId: 'js', maxInFlightRequests: 1, idempotent: true, transactionTimeout: 20000,
      retry: { retries: 50, initialRetryTime: 20, maxRetryTime: 100 } })
    await p.connect()
    return p
  }
  const write = (t, value) => t.send({ topic, messages: [0, 1].map(partition => ({ partition, value })) })
  const producer = await open()
  for (let i = 0; i < 6; i++) {
    const t = await producer.transaction()
    await write(t, `${i}`)
    if (i % 3 === 2) { await t.abort(); continue }
    await t.sendOffsets({ consumerGroupId: 'js-txn', topics: [{ topic, partitions: [{ partition: 0, offset: `${i}` }] }] })
    await t.commit()
  }
  const zombie = await producer.transaction()
  await write(zombie, 'lost')
  const next = await open()
  const last = await next.transaction()
  await write(last, 'kept')
  await last.commit()
  await assert.rejects(zombie.commit())
  const got = []
  const consumer = kafka.consumer({ groupId: 'js-reads', maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => { got.push(message.value.toString()) } })
  const want = ['0', '1', '3', '4', 'kept'].flatMap(v => [v, v])
  await until('what is committed', () => got.length >= want.length)
  assert.deepEqual(got.sort(), want)
  await until('the offset', async () =>
    (await admin.fetchOffsets({ groupId: 'js-txn', topics: [topic] }))[0].partitions.find(p => p.partition === 0).offset === '4')
  for (const c of [consumer, producer, next]) await c.disconnect().catch(() => {})
})
await check('errors', async () => {
  await assert.rejects(admin.createTopics({ topics: [{ topic: 'bad/name' }] }), e => e.errors[0].type === 'INVALID_TOPIC_EXCEPTION')
  await assert.rejects(admin.fetchTopicMetadata({ topics: ['not-there'] }), /host this topic|not exist/i)
})
await check('delete topic', async () => {
  await admin.deleteTopics({ topics: [topic] })
  for (let i = 0; (await admin.listTopics()).includes(topic); i++) assert.ok(i < 50, 'still listed')
})
await admin.disconnect()
