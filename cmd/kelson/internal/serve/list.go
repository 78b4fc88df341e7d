package serve

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/output"
)

// listed is a server in the output of kelson list.
type listed struct {
	Name       string     `json:"name"`
	Running    bool       `json:"running"`
	URL        string     `json:"url,omitempty"`
	Kubeconfig string     `json:"kubeconfig,omitempty"`
	Console    string     `json:"console,omitempty"`
	PID        int        `json:"pid,omitempty"`
	Started    *time.Time `json:"started,omitempty"`
}

// ListCommand returns kelson list.
func ListCommand() *cobra.Command {
	var format output.Format
	c := &cobra.Command{
		Use:   "list",
		Short: "List the servers that kelson serve --name started",
		Long: `List the servers that kelson serve --name started.

Servers that do not run keep their state: kelson serve --name NAME starts one again.`,
		Example: `  kelson serve --name shop --detach
  kelson list
  kelson stop shop`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			names, err := Named()
			if err != nil {
				return err
			}
			all := []listed{}
			for _, name := range names {
				one := listed{Name: name}
				if r, err := Running(c.Context(), name); err == nil {
					one = listed{name, true, r.URL, r.Kubeconfig, r.Console, r.PID, &r.Started}
				} else if !errors.Is(err, ErrNotRunning) {
					return err
				}
				all = append(all, one)
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(), map[string]any{"servers": all})
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(c.OutOrStdout(), "no servers: kelson serve --name NAME --detach starts one")
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATUS\tURL\tKUBECONFIG")
			for _, s := range all {
				status := "stopped"
				if s.Running {
					status = "running"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, status, s.URL, s.Kubeconfig)
			}
			return w.Flush()
		},
	}
	format.AddFlag(c)
	return c
}

// StopCommand returns kelson stop.
func StopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop NAME",
		Short: "Stop a server that kelson serve --name started",
		Long: `Stop a server that kelson serve --name started.

The command returns when the server has completed its requests and has ended. The
state stays: kelson serve --name NAME starts the server again.`,
		Example: `  kelson stop shop`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			names, _ := Named()
			if len(args) > 0 {
				names = nil
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := stopNamed(c.Context(), args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "server %q has stopped\n", args[0])
			return err
		},
	}
}
