// Package cli is what people type: the commands of the moldau binary. A command talks to brokers through the Kafka
// protocol only, as any other client does; serve runs a node, and log dump reads files.
//
// Commands share no state. An error is one line that says what is wrong and how to mend it, and exit status 1. Start
// reading at root.go.
package cli
