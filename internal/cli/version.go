package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionView is what version tells.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(s streams) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: args(0, 0, "no argument")}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if output.value == "json" {
			return writeJSON(s.out, thisVersion())
		}
		_, err := fmt.Fprintln(s.out, versionLine())
		return err
	}
	return c
}

func thisVersion() versionView {
	v := versionView{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return v
}

func versionLine() string {
	v := thisVersion()
	line := "moldau " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision + ")"
	}
	return line + " " + v.Platform + " " + v.Go
}
