package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/telemetry"
)

// referenceHead has ~ where Markdown wants a backquote.
const referenceHead = `# Command reference

<!-- Generated from the commands in internal/cli. Do not edit. -->

Commands that talk to a broker use the Kafka protocol only and work with every Kafka-compatible broker. An error is one
line on standard error and exit status 1; ctrl-C gives 130.

`

func newDocs(streams) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIRECTORY",
		Short:  "Write the generated reference pages",
		Hidden: true,
		Args:   args(1, 1, "the directory of the pages"),
		RunE: func(cmd *cobra.Command, args []string) error {
			apis, err := api.Reference()
			if err != nil {
				return err
			}
			for _, page := range []struct{ name, text string }{
				{"cli.md", Reference()}, {"configs.md", config.Reference()}, {"metrics.md", telemetry.Reference()},
				{"apis.md", apis}, {"errors.md", api.ErrorReference()},
			} {
				if err := os.WriteFile(filepath.Join(args[0], page.name), []byte(page.text), 0o644); err != nil {
					return plain(err)
				}
			}
			return nil
		},
	}
}

// Reference gives docs/reference/cli.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "~", "`"))
	writeReference(&b, newRoot(streams{}))
	return b.String()
}

// writeReference writes the commands below c in the order of their help.
func writeReference(b *strings.Builder, c *cobra.Command) {
	for _, child := range c.Commands() {
		if !child.IsAvailableCommand() {
			continue
		}
		if !child.HasAvailableSubCommands() {
			writeCommand(b, child)
		}
		writeReference(b, child)
	}
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "## %s\n\n", c.CommandPath())
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	writeAbout(b, about)
	fmt.Fprintf(b, "```\n%s\n", c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\n%s\n", c.Example)
	}
	b.WriteString("```\n\n")
	rows := 0
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if rows++; rows == 1 {
			b.WriteString("| Flag | Default | What it does |\n|---|---|---|\n")
		}
		writeFlag(b, f)
	})
	if rows > 0 {
		b.WriteString("\n")
	}
}

// writeAbout writes paragraphs; lines that begin with blanks stay as they are, in a block.
func writeAbout(b *strings.Builder, about string) {
	for paragraph := range strings.SplitSeq(about, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			paragraph = "```\n" + paragraph + "\n```"
		}
		fmt.Fprintf(b, "%s\n\n", paragraph)
	}
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	kind, usage := pflag.UnquoteUsage(f)
	name := "`--" + f.Name
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, `--" + f.Name
	}
	if kind != "" {
		name += " " + kind
	}
	escape := strings.NewReplacer("|", `\|`, "<", `\<`)
	value := f.DefValue
	if value == "[]" || value == `""` {
		value = ""
	}
	if value != "" {
		value = "`" + value + "`"
	}
	fmt.Fprintf(b, "| %s` | %s | %s |\n", escape.Replace(name), value, escape.Replace(usage))
}
