// Command schemagen writes the table of request schemas that package server walks before it decodes.
//
// It reads the source of the kmsg module at the version of go.mod: the readFrom function of every request is a regular
// sequence of reads, and each becomes one node of the schema. It refuses what it does not understand, so that a new
// release of kmsg cannot slip past it. Run it with go generate in package server.
package main
