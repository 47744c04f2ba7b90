// Package etl is an extract-transform-load pipeline while its members come and go: records are read by a group, changed,
// written to a second topic, and only then committed. It checks what a group promises: nothing is lost, nothing comes
// twice beyond what at-least-once allows, and the order within a partition is kept.
package etl
