// Package diff sends the same generated requests, valid and broken, to Apache Kafka and to Moldau and compares the
// answers.
//
// A seed gives a list of steps (generate.go and its siblings: one function per API). A step draws all its random
// choices when it is generated; what a broker chose itself (topic ids, producer ids) it takes from that broker's World,
// so both get the same request in their own words. Answers are normalised (normalise.go): ids, times, ports and
// message texts are masked, lists without order are sorted. Deliberate differences stand in differences.go, each with
// its reason.
//
// Groups have histories of their own (groups.go, generate_groups.go), because joins wait for each other: an action sends
// requests of several members side by side, and what it sends follows from what the broker has answered before.
//
// testdata holds Apache Kafka's answers to one seed, so that a machine without Java compares too:
// INTEROP_TARGET=kafka go test ./diff -run TestRecorded -update writes it. DIFF_SEED and DIFF_STEPS choose what TestLive
// sends. Start reading at Run.
package diff
