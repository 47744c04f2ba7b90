// kafkajs against a broker: admin and producer (its consumer needs groups). usage: node kafkajs.mjs HOST:PORT
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
await check('errors', async () => {
  await assert.rejects(admin.createTopics({ topics: [{ topic: 'bad/name' }] }), e => e.errors[0].type === 'INVALID_TOPIC_EXCEPTION')
  await assert.rejects(admin.fetchTopicMetadata({ topics: ['not-there'] }), /host this topic|not exist/i)
})
await check('delete topic', async () => {
  await admin.deleteTopics({ topics: [topic] })
  for (let i = 0; (await admin.listTopics()).includes(topic); i++) assert.ok(i < 50, 'still listed')
})
await admin.disconnect()
