package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Version is set when a release is built.
var Version = "dev"

// Exit statuses.
const (
	exitFailure     = 1
	exitInterrupted = 130
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs the command that args name and gives the exit status. The first interrupt ends the command in good order,
// a second one ends the process.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRoot(streams{in, out, errs})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	fmt.Fprintln(errs, "moldau: "+oneLine(err.Error()))
	return exitFailure
}

// oneLine keeps a message to the line it is promised to be, except where several problems have a line each.
func oneLine(s string) string {
	var lines []string
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

func newRoot(s streams) *cobra.Command {
	root := group("moldau", "A durable, Kafka-compatible event log in one program")
	root.Long = `A durable, Kafka-compatible event log in one program: the broker and the tools to work with it.

  moldau serve                      run a broker on 127.0.0.1:9092
  echo hello | moldau produce t     write a record
  moldau consume t                  read what is there

The tools work with every broker that speaks Kafka's protocol.`
	root.Version = Version
	root.SetVersionTemplate(versionLine() + "\n")
	root.SilenceUsage, root.SilenceErrors, root.DisableSuggestions = true, true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(flagError)
	for _, add := range []func(streams) *cobra.Command{
		newServe, newTopic, newProduce, newConsume, newGroup, newTxn, newConfig, newCluster, newBroker, newExplain, newLog, newDoctor, newBench,
		newSim, newCompletion, newVersion, newDocs,
	} {
		root.AddCommand(add(s))
	}
	completeChoices(root)
	return root
}

// group makes a command that only holds others: alone it shows its help, and a name it does not know is an error.
func group(name, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	c.AddCommand(children...)
	return c
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), name,
		didYouMean(nearest(name, names), "see "+cmd.CommandPath()+" --help"))
}

// flagError names the nearest flag where one is not known.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	typed := unknown.GetSpecifiedName()
	help := "see " + cmd.CommandPath() + " --help"
	if len(typed) < 2 {
		return fmt.Errorf("%s has no flag -%s; %s", cmd.CommandPath(), typed, help)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := nearest(typed, names)
	if near != "" {
		near = "--" + near
	}
	return fmt.Errorf("%s has no flag --%s%s", cmd.CommandPath(), typed, didYouMean(near, help))
}

// args checks the number of arguments; what names them for the message.
func args(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		switch {
		case len(got) < least:
			return fmt.Errorf("%s wants %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		case most >= 0 && len(got) > most:
			return fmt.Errorf("%s takes %s, %q is too much; see %s --help", cmd.CommandPath(), what, got[most],
				cmd.CommandPath())
		}
		return nil
	}
}
