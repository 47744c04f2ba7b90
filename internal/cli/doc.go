// Package cli is what people type: the commands of the moldau binary. A command talks to brokers through the Kafka
// protocol only, as any other client does; serve runs a node, log dump reads files, and doctor looks at the machine.
//
// It never keeps state between commands, never prints colours, and never answers a mistake with a page of usage: an
// error is one line that says what is wrong and how to mend it, and exit status 1 (130 after ctrl-C).
//
// Locking: commands share nothing. Goroutines belong to the command that started them, which waits for them; only a
// blocked read of standard input may outlive its command, as the process ends then.
//
// Start reading at root.go, then connect.go for how a command reaches a broker and topic.go for what one looks like.
// docs/recipes/add-a-cli-command.md says how to add one.
package cli
