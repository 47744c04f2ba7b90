package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCompletion(s streams) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the completion script of a shell",
		Long: `Print the completion script of a shell. It completes commands, flags, configuration keys and the names of topics,
for which it asks the broker.

  bash        source <(moldau completion bash)
  zsh         moldau completion zsh > "${fpath[1]}/_moldau"
  fish        moldau completion fish > ~/.config/fish/completions/moldau.fish
  powershell  moldau completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args:      args(1, 1, "the name of a shell: bash, zsh, fish or powershell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(s.out, true)
			case "zsh":
				return root.GenZshCompletion(s.out)
			case "fish":
				return root.GenFishCompletion(s.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(s.out)
			}
			return fmt.Errorf("no completion for %q%s", args[0],
				didYouMean(nearest(args[0], shells), "it is there for bash, zsh, fish and powershell"))
		},
	}
}
