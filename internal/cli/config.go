package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
)

func newConfig(s streams) *cobra.Command {
	return group("config", "Get, set and explain configurations", newConfigGet(s), newConfigSet(s), newConfigExplain(s))
}

// resourceHelp says how a resource is named on the command line.
const resourceHelp = `The resource is topic NAME, broker ID, group NAME, client-metrics NAME, or cluster for what all brokers take unless
they were told otherwise.`

// resource is what has configurations.
type resource struct {
	kind kmsg.ConfigResourceType
	name string // of a broker: its id, or "" for all
}

// String names it for a person.
func (r resource) String() string {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		return "topic " + r.name
	case kmsg.ConfigResourceTypeBroker:
		if r.name == "" {
			return "the cluster"
		}
		return "broker " + r.name
	case kmsg.ConfigResourceTypeGroupConfig:
		return "group " + r.name
	}
	return "client metrics " + r.name
}

// scope is the part of the key table that is about such a resource.
func (r resource) scope() config.Scope {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		return config.Topic
	case kmsg.ConfigResourceTypeBroker:
		return config.Broker
	case kmsg.ConfigResourceTypeGroupConfig:
		return config.Group
	}
	return config.ClientMetrics
}

// resourceKinds are the first words of config get and set.
func resourceKinds() []string {
	return []string{"topic", "broker", "cluster", "group", "client-metrics"}
}

// parseResource takes the resource off the front of the arguments.
func parseResource(args []string) (resource, []string, error) {
	kinds := map[string]kmsg.ConfigResourceType{
		"topic": kmsg.ConfigResourceTypeTopic, "broker": kmsg.ConfigResourceTypeBroker,
		"group": kmsg.ConfigResourceTypeGroupConfig, "client-metrics": kmsg.ConfigResourceTypeClientMetrics,
	}
	if len(args) == 0 {
		return resource{}, nil, errors.New("say whose configuration: topic NAME, broker ID, group NAME, " +
			"client-metrics NAME or cluster")
	}
	if args[0] == "cluster" {
		return resource{kmsg.ConfigResourceTypeBroker, ""}, args[1:], nil
	}
	kind, ok := kinds[args[0]]
	if !ok {
		return resource{}, nil, fmt.Errorf("%q has no configuration%s", args[0],
			didYouMean(nearest(args[0], resourceKinds()), "it is topic NAME, broker ID, group NAME, client-metrics NAME or cluster"))
	}
	if len(args) < 2 {
		return resource{}, nil, fmt.Errorf("say which %s", args[0])
	}
	if _, err := strconv.Atoi(args[1]); kind == kmsg.ConfigResourceTypeBroker && err != nil {
		return resource{}, nil, fmt.Errorf("broker %s: a broker's id is a number; moldau cluster info lists them", args[1])
	}
	return resource{kind, args[1]}, args[2:], nil
}

// configEntry is one configuration of a resource.
type configEntry struct {
	Name      string          `json:"name"`
	Value     *string         `json:"value"` // null for a secret and for none
	Source    string          `json:"source"`
	ReadOnly  bool            `json:"readOnly"`
	Sensitive bool            `json:"sensitive"`
	Synonyms  []configSynonym `json:"synonyms"`
}

// configSynonym is one level that a value may come from, highest first.
type configSynonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

func (c configEntry) shown() string {
	switch {
	case c.Sensitive:
		return "(secret)"
	case c.Value == nil:
		return "(none)"
	}
	return *c.Value
}

// sourceWord names a source for a person.
func sourceWord(s kmsg.ConfigSource) string {
	words := map[kmsg.ConfigSource]string{1: "topic", 2: "broker", 3: "cluster", 4: "file", 5: "default", 6: "logger",
		7: "client-metrics", 8: "group"}
	if w, ok := words[s]; ok {
		return w
	}
	return "unknown"
}

func entryOf(c kmsg.DescribeConfigsResponseResourceConfig) configEntry {
	e := configEntry{Name: c.Name, Value: c.Value, Source: sourceWord(c.Source), ReadOnly: c.ReadOnly,
		Sensitive: c.IsSensitive, Synonyms: []configSynonym{}}
	for _, s := range c.ConfigSynonyms {
		e.Synonyms = append(e.Synonyms, configSynonym{s.Name, s.Value, sourceWord(s.Source)})
	}
	return e
}

// describeConfigs gives the configurations of resources of one kind, by name of the resource; keys nil means all.
func (s *session) describeConfigs(
	ctx context.Context, kind kmsg.ConfigResourceType, names, keys []string,
) (map[string][]configEntry, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, s)
	if err != nil {
		return nil, s.explain(err)
	}
	out := map[string][]configEntry{}
	var failed problems
	for _, r := range resp.Resources {
		if err := answered(r.ErrorCode, r.ErrorMessage); err != nil {
			failed.add(resource{kind, r.ResourceName}.String(), err)
			continue
		}
		entries := []configEntry{}
		for _, c := range r.Configs {
			entries = append(entries, entryOf(c))
		}
		slices.SortFunc(entries, func(a, b configEntry) int { return strings.Compare(a.Name, b.Name) })
		out[r.ResourceName] = entries
	}
	return out, failed.err()
}

// onlySet leaves out what is not set on the resource itself: what comes from a wider level or the default.
func onlySet(entries []configEntry, sources ...string) []configEntry {
	out := []configEntry{}
	for _, e := range entries {
		if slices.Contains(sources, e.Source) {
			out = append(out, e)
		}
	}
	return out
}

func newConfigGet(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "get RESOURCE [KEY...]",
		Short: "Show configurations and where their values come from",
		Long: "Show configurations and where their values come from. " + resourceHelp +
			"\n\nWithout keys it shows what was set, with --all everything.",
		Example: `  moldau config get topic orders
  moldau config get broker 1 log.dirs num.io.threads
  moldau config get cluster --all -o json`,
	}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	all := c.Flags().Bool("all", false, "show what has its default value too")
	c.ValidArgsFunction = f.completeConfig
	c.RunE = func(cmd *cobra.Command, args []string) error {
		r, keys, err := parseResource(args)
		if err != nil {
			return err
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		found, err := ses.describeConfigs(ctx, r.kind, []string{r.name}, keys)
		if err != nil {
			return err
		}
		entries := found[r.name]
		if missing := missingKey(keys, entries); missing != "" {
			return fmt.Errorf("%s has no configuration %s%s", r, missing,
				didYouMean(config.Nearest(r.scope(), missing), "moldau config get ... --all shows what there is"))
		}
		if len(keys) == 0 && !*all {
			entries = onlySet(entries, "topic", "broker", "cluster", "file", "group", "client-metrics")
			if r.kind == kmsg.ConfigResourceTypeTopic {
				entries = onlySet(entries, "topic")
			}
		}
		if output.value == "json" {
			return writeJSON(s.out, entries)
		}
		out := newTable("KEY", "VALUE", "FROM", "CHANGES")
		for _, e := range entries {
			changes := "any time"
			if e.ReadOnly {
				changes = "restart"
			}
			out.add(e.Name, e.shown(), e.Source, changes)
		}
		return out.print(s.out)
	}
	return c
}

func missingKey(keys []string, entries []configEntry) string {
	for _, k := range keys {
		if !slices.ContainsFunc(entries, func(e configEntry) bool { return e.Name == k }) {
			return k
		}
	}
	return ""
}

// completeConfig offers kinds, then names, then keys.
func (f *clientFlags) completeConfig(
	cmd *cobra.Command, given []string, prefix string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(given) == 0:
		return resourceKinds(), cobra.ShellCompDirectiveNoFileComp
	case len(given) == 1 && given[0] == "topic":
		return f.completeTopics(-1)(cmd, nil, prefix)
	}
	r, used, err := parseResource(given)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, k := range config.Keys(r.scope()) {
		if strings.HasPrefix(k.Name, prefix) && !slices.Contains(used, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
