package cli

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// clockTicks is how many units of /proc's times make a second. It is 100 on every Linux port of Go.
const clockTicks = 100

// fieldStartTime is where /proc/self/stat says when the process began, counted behind the name.
const fieldStartTime = 19

// processStart is when the process began: the kernel's figure, which is exact to 10 ms.
func processStart() time.Time {
	now := time.Now()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return now
	}
	// The name of the program stands in parentheses and may hold anything, blanks and parentheses too.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var up unix.Timespec
	if len(fields) <= fieldStartTime || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return now
	}
	ticks, err := strconv.ParseInt(string(fields[fieldStartTime]), 10, 64)
	if err != nil {
		return now
	}
	age := time.Duration(up.Nano()) - time.Duration(ticks)*time.Second/clockTicks
	return now.Add(-max(0, age))
}
