package deploy

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/project"
)

// RunCommand returns kelson run.
func RunCommand() *cobra.Command {
	var cluster clusterFlags
	var gens project.Generators
	c := &cobra.Command{
		Use:   "run [DIR] [-- FLAG…]",
		Short: "Run a project's operator or API server on this machine against a cluster",
		Long: `Run a project's operator or API server on this machine against a cluster.

It runs the generators, then builds and runs the operator. Flags after -- are
passed to the operator. If the cluster's API server is also on this machine, it
is configured to call the operator's webhooks here. With ENABLE_WEBHOOKS=false in
the environment, the operator runs without webhooks.

A custom API server is registered with the cluster while it runs: kelson applies
the APIServices in config/apiservice with a certificate authority for this run,
makes their Service an alias of this machine, and deletes both at the end. The
cluster's API server must be able to reach localhost. With -- --standalone, the
API server runs without a cluster.`,
		Example: `  kelson run
  kelson run . -- --standalone
  ENABLE_WEBHOOKS=false kelson run . -- --v=1`,
		RunE: func(c *cobra.Command, args []string) error {
			own, rest := project.SplitArgs(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: put flags of the operator after --", own[1])
			}
			p, err := project.Open(project.Folder(own))
			if err != nil {
				return err
			}
			if p.Server {
				if err := checkServerArgs(rest); err != nil {
					return err
				}
			}
			temp, err := os.MkdirTemp("", "kelson-run-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			if err := project.Generate(c, p.Dir, gens); err != nil {
				return err
			}
			binary := filepath.Join(temp, "manager")
			if err := p.BuildAgain(c.Context(), "run", binary); err != nil {
				return err
			}
			if p.Server {
				return cluster.runServer(c, p, binary, temp, rest)
			}
			var env []string
			if cluster.kubeconfig != "" {
				path, err := filepath.Abs(cluster.kubeconfig)
				if err != nil {
					return err
				}
				env = append(env, "KUBECONFIG="+path)
			}
			if os.Getenv("KELSON_LOCAL_WEBHOOKS") == "" && cluster.onLoopback() {
				// the operator then registers webhooks by URL
				env = append(env, "KELSON_LOCAL_WEBHOOKS=true")
			}
			if cluster.context != "" {
				rest = append([]string{"--context=" + cluster.context}, rest...)
			}
			return project.RunChild(c.Context(), p.Dir, env, c.OutOrStdout(), c.ErrOrStderr(), binary, rest...)
		},
	}
	cluster.addFlags(c.Flags())
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	return c
}
