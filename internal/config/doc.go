// Package config owns every configuration key: one declared table of names, types, defaults, allowed values, update
// modes, synonyms and documentation, from which parsing, validation, DescribeConfigs, explain texts and
// docs/reference/configs.md derive.
//
// Four kinds of keys exist (Scope): topic, broker (which includes the controller's), group and client metrics. A
// broker key may be set in a Kafka server.properties file, in the environment and by --set (Load gives a Static),
// and the dynamic ones through the protocol. A Resolver lays stored dynamic values over a Static with Kafka's
// precedence; it is handed lookups and never imports the metadata package.
//
// The package never opens a file, reads the environment or logs: callers hand in readers, strings and lookups.
//
// Locking: everything is immutable after construction and safe for concurrent use. The table is built once, on
// first use.
//
// Start reading at key.go, then keys_topic.go for what a row looks like, static.go for start-up and resolver.go for
// dynamic values. To add a key, add one line to one of the keys_*.go tables and regenerate
// docs/reference/configs.md.
package config
