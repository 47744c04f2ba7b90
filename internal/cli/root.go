package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Version is set when a release is built.
var Version = "dev"

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs the command that args name and gives the exit status.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot(streams{in, out, errs})
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(errs, "moldau: "+strings.TrimSpace(err.Error()))
		return 1
	}
	return 0
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "moldau",
		Short:         "A durable, Kafka-compatible event log in one program",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       Version,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(newServe(s))
	return root
}
