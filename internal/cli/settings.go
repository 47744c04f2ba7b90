package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/spf13/cobra"

	"moldau/internal/config"
)

// settingFlags say how a node is configured; serve, doctor and config explain share them.
type settingFlags struct {
	config  string
	set     []string
	dataDir string
	listen  string
	cluster string
}

func (f *settingFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "a Kafka server.properties `file`")
	c.Flags().StringArrayVar(&f.set, "set", nil, "set a key, as `key=value`; may be given again")
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "`directory` of the data (log.dirs)")
	c.Flags().StringVar(&f.listen, "listen", "", "address to serve on, as `host:port` (listeners)")
	c.Flags().StringVar(&f.cluster, "cluster", "",
		"the nodes of a cluster, as `host:port,...`: the addresses that clients use, the same list on each node")
	_ = c.RegisterFlagCompletionFunc("set",
		func(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []string
			for _, k := range completeKeys(prefix) {
				if _, ok := config.Lookup(config.Broker, k); ok {
					out = append(out, k+"=")
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		})
	_ = c.MarkFlagDirname("data-dir")
}

// load reads and judges the settings from all places.
func (f *settingFlags) load() (*config.Static, error) {
	layers, err := f.layers()
	if err != nil {
		return nil, err
	}
	nodes := 0
	if f.cluster != "" {
		var layer config.Layer
		layer, nodes, err = config.Cluster(f.cluster, config.ClusterOptions{Listen: f.listen, IsLocal: config.LocalHost})
		if err != nil {
			return nil, fmt.Errorf("--cluster: %w", err)
		}
		layers = append([]config.Layer{layer}, layers...)
	}
	return config.Load(layers, config.Options{Nodes: nodes})
}

func (f *settingFlags) layers() ([]config.Layer, error) {
	var out []config.Layer
	if f.config != "" {
		file, err := os.Open(f.config)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", plain(err))
		}
		defer file.Close()
		l, err := config.FileLayer(f.config, file)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	out = append(out, config.EnvLayer(os.Environ(), brokersEnv))
	l, err := config.SetLayer(f.set)
	if err != nil {
		return nil, err
	}
	out = append(out, l)
	if f.dataDir != "" {
		out = append(out, config.MapLayer("--data-dir", map[string]string{"log.dirs": f.dataDir}))
	}
	if f.listen != "" && f.cluster == "" {
		host, port, err := net.SplitHostPort(f.listen)
		if err != nil {
			return nil, fmt.Errorf("--listen %s: it must be host:port, such as 0.0.0.0:9092", f.listen)
		}
		out = append(out, config.MapLayer("--listen", map[string]string{
			"listeners": "PLAINTEXT://" + net.JoinHostPort(host, port)}))
	}
	return out, nil
}

// plain takes the operation off a path error, which the message around it says already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}
