//go:build !linux

package cli

import "time"

// loaded is when this program's code began to run.
var loaded = time.Now()

// processStart is when the process began, as near as it can be told here.
func processStart() time.Time { return loaded }
