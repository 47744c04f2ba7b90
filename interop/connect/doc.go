// Package connect runs Kafka Connect: distributed workers with a file as source and a file as sink, and MirrorMaker 2
// between Apache Kafka and the broker under test, both killed while they work. Start reading at TestFiles and TestMirror.
//
// Environment: CONNECT_RECORDS is how many records go through, CONNECT_SEED repeats a run.
package connect
