package config

// moldauKeys are Moldau's own broker keys. Their names begin with moldau., in the environment that part may be left
// out (MOLDAU_FLUSH and MOLDAU_MOLDAU_FLUSH are the same).
var moldauKeys = []Key{
	key("moldau.flush", String, "ack", oneOf("ack", "async"), ClusterWide, High,
		"When a record counts as stored, for topics that do not say so themselves: ack waits for the sync of the "+
			"disk, async for the page cache only. See the topic key of the same name."),
	key("moldau.cluster", List, "", bootstrapList, ReadOnly, High,
		"The nodes of a cluster by the addresses that clients use (host:port). They found the cluster together and settle "+
			"ids and cluster id among themselves. Set by --cluster, which sets what else a node needs."),
	key("moldau.flush.linger.ms", Int, "0", between(0, 1000), ReadOnly, Low,
		"How long a directory's flusher gathers further appends before it syncs (ms). With 0 it syncs at once; what "+
			"is appended meanwhile goes into the next sync."),
	key("moldau.flush.syncfs.min.files", Int, "4", atLeast(0), ReadOnly, Low,
		"Changed files from which on one sync of the whole file system replaces a sync of each; 0 means never."),
	key("moldau.disk.reserve.bytes", Long, "134217728", atLeast(0), ReadOnly, Medium,
		"Free space of a data directory that produces leave untouched (bytes), so that metadata, checkpoints, "+
			"retention and deletion go on when the disk is full."),
	key("moldau.scrub.bytes.per.second", Long, "8388608", atLeast(0), ReadOnly, Low,
		"Bytes of closed segments that the scrubber re-reads in one second to find damage; 0 turns it off."),
	key("moldau.scrub.interval.ms", Long, "604800000", atLeast(1000), ReadOnly, Low,
		"Time between the starts of two passes of the scrubber over a directory (ms)."),
	key("moldau.log.idle.close.ms", Long, "60000", atLeast(1000), ReadOnly, Low,
		"How long a partition may be idle before its files are closed (ms)."),
	key("moldau.memory.budget.bytes", Long, "-1", betweenOr(16<<20, 1<<50, -1), ReadOnly, Medium,
		"Memory for requests being read and answered (bytes). Connections wait when it is used up. -1 means a "+
			"quarter of the memory the process may use, from 64 MiB to 1 GiB."),
	key("moldau.memory.small.bytes", Long, "33554432", atLeast(1<<20), ReadOnly, Low,
		"Memory beside the budget that only requests up to moldau.memory.small.frame.bytes use (bytes), so that they go "+
			"on when large ones fill the budget."),
	key("moldau.memory.small.frame.bytes", Int, "65536", between(1024, 16<<20), ReadOnly, Low,
		"Size up to which a request is small (bytes)."),
	key("moldau.memory.internal.bytes", Long, "33554432", atLeast(1<<20), ReadOnly, Low,
		"Memory beside the budget that only other nodes and the controller's listener use (bytes), so that replication "+
			"goes on when clients fill the budget."),
	key("moldau.request.decoded.max.bytes", Long, "268435456", atLeast(1<<20), ReadOnly, Low,
		"Memory that decoding one request may take beside its own bytes. A larger one closes the connection."),
	key("moldau.request.array.elements.max", Int, "1000000", atLeast(1000), ReadOnly, Low,
		"Elements one array of a request may have. A longer one closes the connection."),
	key("moldau.request.tags.max", Int, "10000", atLeast(16), ReadOnly, Low,
		"Tagged fields one struct of a request may have. More close the connection."),
	key("moldau.connection.max.queued.requests", Int, "64", between(1, 10000), ReadOnly, Low,
		"Requests of one connection that may be unanswered at once. Further ones stay unread."),
	key("moldau.request.progress.timeout.ms", Int, "30000", atLeast(1000), ReadOnly, Low,
		"How long a request that has begun may stand still before the connection is closed (ms)."),
	key("moldau.request.min.bytes.per.second", Int, "1024", atLeast(0), ReadOnly, Low,
		"Speed below which the sender of a request counts as standing still (bytes per second); 0 means any speed "+
			"will do."),
	key("moldau.request.pressed.timeout.ms", Int, "5000", atLeast(1000), ReadOnly, Low,
		"What stands for moldau.request.progress.timeout.ms while other connections wait for memory (ms)."),
	key("moldau.request.pressed.min.bytes.per.second", Int, "65536", atLeast(0), ReadOnly, Low,
		"What stands for moldau.request.min.bytes.per.second while other connections wait for memory."),
	key("moldau.response.progress.timeout.ms", Int, "30000", atLeast(1000), ReadOnly, Low,
		"How long a response may stand still because the client does not read before the connection is closed (ms)."),
	key("moldau.transaction.wait.ms", Int, "5000", atLeast(1), ReadOnly, Low,
		"How long a request waits for the end of a transaction that is being completed (ms), before it is sent away to "+
			"come again."),
	key("moldau.request.wait.max", Int, "100000", atLeast(100), ReadOnly, Low,
		"Requests that may wait for data or acknowledgements at once. Above it a fetch is answered at once with "+
			"what is there."),
	key("moldau.describe.entries.max", Int, "1000000", atLeast(1000), ReadOnly, Low,
		"Configuration entries that one DescribeConfigs may answer. Resources of the request beyond are refused with "+
			"POLICY_VIOLATION."),
	key("moldau.batch.expanded.max.bytes", Int, "67108864", atLeast(1<<20), ReadOnly, Low,
		"Size up to which every compressed batch may expand (bytes). A larger one must stay within "+
			"moldau.batch.expanded.max.ratio, and all within max.decompressed.message.bytes."),
	key("moldau.batch.expanded.max.ratio", Int, "64", atLeast(1), ReadOnly, Low,
		"Times its own size to which a compressed batch above moldau.batch.expanded.max.bytes may expand."),
	key("moldau.fetch.session.partitions.max", Int, "2000000", atLeast(1000), ReadOnly, Low,
		"Partitions that all incremental fetch sessions may remember together."),
	key("moldau.producer.ids.max", Int, "2000000", atLeast(1), ReadOnly, Medium,
		"Producer ids the node remembers over all partitions. A new id above it is refused with POLICY_VIOLATION; one "+
			"that is known is never forgotten before producer.id.expiration.ms."),
	key("moldau.group.memory.max.bytes", Long, "536870912", atLeast(1<<20), ReadOnly, Low,
		"What members of groups may take in memory with what they tell of themselves, and a quarter of it ids handed out to "+
			"clients that have not come yet. Beyond it nobody else may join; clients try again."),
	key("moldau.group.consumer.unsettled.heartbeat.interval.ms", Int, "500", atLeast(0), ReadOnly, Low,
		"Heartbeat interval given to members of a consumer group while it rebalances and shortly after (ms), if it is "+
			"shorter than their own; larger by 1 ms a member in large groups. 0: always their own, as in Kafka."),
	key("moldau.group.lag.partitions.max", Int, "2000", atLeast(0), ReadOnly, Low,
		"Partitions of groups whose lag is served as metrics, those that lag most; 0: none, and nobody computes it."),
	key("moldau.drain.timeout.ms", Int, "10000", atLeast(0), ReadOnly, Low,
		"How long a stopping node lets requests in work finish (ms)."),
	key("moldau.admin.listener", String, "127.0.0.1:9644", formRule{words: "host:port, or empty", judge: judgeAdmin},
		ReadOnly, Medium,
		"Address of the HTTP listener for /metrics, /healthz, /readyz and profiles; empty: none."),
	key("moldau.log.level", String, "info", oneOf("debug", "info", "warn", "error"), ReadOnly, Medium,
		"Least severe messages that are logged."),
	key("moldau.log.format", String, "text", oneOf("text", "json"), ReadOnly, Low,
		"Form of the log: text for people, json for machines."),
}
