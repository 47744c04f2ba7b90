// Command moldau is a durable, Kafka-compatible event log: broker, controller and the tools to work with them.
package main

import (
	"os"

	"moldau/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
