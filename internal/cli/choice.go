package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// oneOf makes a choice; the first word is the default.
func oneOf(words ...string) *choice { return &choice{value: words[0], words: words} }

func (c *choice) String() string { return c.value }

// place is the place of the chosen word among all.
func (c *choice) place() int { return slices.Index(c.words, c.value) }

func (c *choice) Type() string { return strings.Join(c.words, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		last := len(c.words) - 1
		return fmt.Errorf("it takes %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	c.value = s
	return nil
}

// completeChoices lets the shell complete the words of every choice below cmd.
func completeChoices(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*choice); ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, child := range cmd.Commands() {
		completeChoices(child)
	}
}
