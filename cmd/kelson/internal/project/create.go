package project

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain"
	"kelson.dev/toolchain/scaffold"
)

// CreateCommand returns kelson create.
func CreateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "create",
		Short: "Add a kind or its webhooks to a project",
	}
	c.AddCommand(createAPICommand(), createWebhookCommand())
	return c
}

func createAPICommand() *cobra.Command {
	var api scaffold.API
	var namespaced, generate bool
	c := &cobra.Command{
		Use:   "api",
		Short: "Add a kind, another version of a kind, or a controller to a project",
		Long: `Add a kind, another version of a kind, or a controller to the project in the
current folder.

With --resource, it creates the kind's Go types, roles for its users and a
sample; with --controller, a reconciler and its test. Both are on by default.
Then it runs the generators, unless --make=false. A kind has only one controller:
further versions do not get their own. Existing files stay unchanged, so running
the command twice changes nothing.

In a custom API server's project, it creates the kind's Go types, its rules with
a test, its APIService, roles and a sample. The first version of a kind is its
hub; functions that convert the others to and from it are generated.`,
		Example: `  kelson create api --group webapp --version v1 --kind Welcome
  kelson create api --group config --version v2 --kind ProjectConfig --controller=false
  kelson create api --group apps --version v1 --kind Deployment --resource=false
  kelson create api --apiserver --group restaurant --version v1alpha1 --kind Pizza`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api.ClusterScoped = !namespaced
			if p, err := scaffold.ReadProject("."); err == nil && p.IsServer() && !c.Flags().Changed("controller") {
				api.Controller = false
			}
			if api.Server && c.Flags().Changed("controller") && api.Controller {
				return errors.New("--apiserver and --controller exclude each other")
			}
			changes, err := scaffold.CreateAPI(".", api)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return regenerate(c.Context(), c.OutOrStdout(), generate && len(changes) > 0)
		},
	}
	addKindFlags(c, &api.Group, &api.Version, &api.Kind)
	f := c.Flags()
	f.StringVar(&api.Plural, "plural", "", "plural of the kind (default: the English plural)")
	f.BoolVar(&api.Resource, "resource", true, "create the kind's types, roles and sample")
	f.BoolVar(&api.Controller, "controller", true, "create a controller for the kind")
	f.BoolVar(&api.Server, "apiserver", false, "fail unless the project is a custom API server, as recorded in PROJECT")
	f.BoolVar(&namespaced, "namespaced", true, "objects of the kind belong to namespaces")
	f.BoolVar(&generate, "make", true, "run the generators")
	f.BoolVar(&api.Force, "force", false, "overwrite existing files")
	return c
}

func addKindFlags(c *cobra.Command, group, version, kind *string) {
	f := c.Flags()
	f.StringVar(group, "group", "", "API group of the kind, without the project's domain")
	f.StringVar(version, "version", "", "version of the kind, such as v1 or v1alpha1")
	f.StringVar(kind, "kind", "", "name of the kind, such as Welcome")
	_ = c.MarkFlagRequired("version")
	_ = c.MarkFlagRequired("kind")
}

// regenerate runs the generators on the project in the current folder if generate is set.
func regenerate(ctx context.Context, out io.Writer, generate bool) error {
	if !generate {
		return nil
	}
	result, err := toolchain.Generate(ctx, toolchain.Options{})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	fmt.Fprintln(out, generated(result))
	return nil
}

func createWebhookCommand() *cobra.Command {
	var hook scaffold.Webhook
	var generate bool
	c := &cobra.Command{
		Use:   "webhook",
		Short: "Add webhooks for a version of a kind: defaulting, validation, conversion",
		Long: `Add webhooks for a version of a kind to the project in the current folder.

With --conversion, the version becomes the hub of the kind: the webhook converts
all other versions, or those that --spoke names, to and from it. The operator
creates and renews the certificates of its webhooks.`,
		Example: `  kelson create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation
  kelson create webhook --group batch --version v1 --kind CronJob --conversion --spoke v2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(hook.Spokes) > 0 && !hook.Conversion {
				return errors.New("--spoke has no effect without --conversion")
			}
			changes, err := scaffold.CreateWebhook(".", hook)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return regenerate(c.Context(), c.OutOrStdout(), generate && len(changes) > 0)
		},
	}
	addKindFlags(c, &hook.Group, &hook.Version, &hook.Kind)
	f := c.Flags()
	f.BoolVar(&hook.Defaulting, "defaulting", false, "add a webhook that sets defaults")
	f.BoolVar(&hook.Validation, "programmatic-validation", false, "add a webhook that validates objects")
	f.BoolVar(&hook.Conversion, "conversion", false, "add a webhook that converts between versions")
	f.StringSliceVar(&hook.Spokes, "spoke", nil, "versions to convert to and from this one (default: all others)")
	f.BoolVar(&generate, "make", true, "run the generators")
	f.BoolVar(&hook.Force, "force", false, "overwrite existing files")
	return c
}
