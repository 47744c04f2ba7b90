package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
)

// configChange is one step of an IncrementalAlterConfigs.
type configChange struct {
	key, value string
	op         kmsg.IncrementalAlterConfigOp
}

// configChanges reads key=value, key+=value and key-=value, and the keys to delete; flag names the former in messages.
func configChanges(flag string, set, remove []string) ([]configChange, error) {
	pairs, err := keyValues(flag, set)
	if err != nil {
		return nil, err
	}
	var out []configChange
	for _, kv := range pairs {
		c := configChange{kv.key, kv.value, kmsg.IncrementalAlterConfigOpSet}
		if key, ok := strings.CutSuffix(c.key, "+"); ok {
			c.key, c.op = key, kmsg.IncrementalAlterConfigOpAppend
		} else if key, ok := strings.CutSuffix(c.key, "-"); ok {
			c.key, c.op = key, kmsg.IncrementalAlterConfigOpSubtract
		}
		out = append(out, c)
	}
	for _, key := range remove {
		out = append(out, configChange{key: key, op: kmsg.IncrementalAlterConfigOpDelete})
	}
	return out, nil
}

// alterConfigs changes the configurations of one resource.
func (s *session) alterConfigs(parent context.Context, r resource, changes []configChange) error {
	return s.alterOrCheckConfigs(parent, r, changes, false)
}

func (s *session) alterOrCheckConfigs(parent context.Context, r resource, changes []configChange, onlyCheck bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = onlyCheck
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = r.kind, r.name
	for _, c := range changes {
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name, k.Op = c.key, c.op
		if c.op != kmsg.IncrementalAlterConfigOpDelete {
			k.Value = &c.value
		}
		res.Configs = append(res.Configs, k)
	}
	req.Resources = append(req.Resources, res)
	ctx, cancel := s.bound(parent)
	defer cancel()
	resp, err := req.RequestWith(ctx, s)
	if err != nil {
		return s.explain(err)
	}
	var failed problems
	for _, answer := range resp.Resources {
		if err := answered(answer.ErrorCode, answer.ErrorMessage); err != nil {
			failed.add(r.String(), withNearestKey(err, r, changes))
		}
	}
	return failed.err()
}

// withNearestKey adds the likely name when a key is not known here.
func withNearestKey(err error, r resource, changes []configChange) error {
	if strings.Contains(err.Error(), "did you mean") {
		return err
	}
	for _, c := range changes {
		if _, ok := config.Lookup(r.scope(), c.key); ok || strings.HasPrefix(c.key, "listener.name.") {
			continue
		}
		if near := config.Nearest(r.scope(), c.key); near != "" {
			return fmt.Errorf("%w; did you mean %s?", err, near)
		}
	}
	return err
}

func newConfigSet(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "set RESOURCE KEY=VALUE...",
		Short: "Set and delete configurations while the brokers run",
		Long: "Set and delete configurations while the brokers run. " + resourceHelp +
			"\n\nKEY+=VALUE and KEY-=VALUE add to a list and take from it.",
		Example: `  moldau config set topic orders retention.ms=86400000
  moldau config set topic orders --delete retention.ms
  moldau config set cluster log.retention.hours=24`,
	}
	f := clientFlagsOf(c)
	remove := c.Flags().StringArray("delete", nil, "take back what was set for `key`; may be given again")
	dry := c.Flags().Bool("dry-run", false, "only ask whether the broker would accept it")
	c.ValidArgsFunction = f.completeConfig
	c.RunE = func(cmd *cobra.Command, args []string) error {
		r, rest, err := parseResource(args)
		if err != nil {
			return err
		}
		changes, err := configChanges("config set", rest, *remove)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return errors.New("nothing to set: give key=value or --delete key")
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		if err := ses.alterOrCheckConfigs(cmd.Context(), r, changes, *dry); err != nil {
			return err
		}
		done := "altered"
		if *dry {
			done = "would alter"
		}
		fmt.Fprintf(s.out, "%s %s of %s\n", done, count(len(changes), "configuration"), r)
		return nil
	}
	return c
}
