package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"moldau/internal/config"
)

// explainWidth is where explanations are broken into lines.
const explainWidth = 100

// factView is one line of an explanation.
type factView struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

func newConfigExplain(s streams) *cobra.Command {
	var settings settingFlags
	c := &cobra.Command{
		Use:   "explain KEY...",
		Short: "Say what a configuration does, what it may be and where it was set",
		Long: `Say what a configuration does, what it may be and where it was set. No broker is asked: with --config, the
environment and --set it tells what a node started with the same would take, and from which line.`,
		Args: args(1, -1, "the name of a configuration"),
		ValidArgsFunction: func(_ *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeKeys(prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
	settings.add(c)
	output := outputFlag(c)
	c.RunE = func(_ *cobra.Command, names []string) error {
		static, err := settings.load()
		if err != nil {
			return err
		}
		views := [][]factView{}
		for _, name := range names {
			keys, err := config.Find(name)
			if err != nil {
				return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "INVALID_CONFIG: "))
			}
			for _, k := range keys {
				var facts []factView
				for _, fact := range static.Facts(k) {
					facts = append(facts, factView{fact.Label, fact.Text})
				}
				views = append(views, facts)
			}
		}
		if output.value == "json" {
			return writeJSON(s.out, views)
		}
		for i, facts := range views {
			if i > 0 {
				fmt.Fprintln(s.out)
			}
			for _, fact := range facts {
				fmt.Fprintf(s.out, "%-12s %s\n", fact.Label, strings.Join(wrap(fact.Text, explainWidth), "\n"+strings.Repeat(" ", 13)))
			}
		}
		return nil
	}
	return c
}

func completeKeys(prefix string) []string {
	var names []string
	seen := map[string]bool{}
	for _, scope := range []config.Scope{config.Broker, config.Topic, config.Group, config.ClientMetrics} {
		for _, k := range config.Keys(scope) {
			if strings.HasPrefix(k.Name, prefix) && !seen[k.Name] {
				seen[k.Name] = true
				names = append(names, k.Name)
			}
		}
	}
	return names
}

// wrap breaks text at blanks into lines of at most width letters where words allow.
func wrap(text string, width int) []string {
	lines := []string{}
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
