package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kelson.dev/toolchain"
	"kelson.dev/toolchain/scaffold"
)

func createCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "create",
		Short: "Add a kind or its webhooks to a project",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(createAPICommand(), createWebhookCommand())
	return c
}

func createAPICommand() *cobra.Command {
	var api scaffold.API
	var namespaced, generate bool
	c := &cobra.Command{
		Use:   "api",
		Short: "Add a kind, another version of one, or a controller",
		Long: `Add a kind, another version of one, or a controller to the project in the current folder.

With --resource it makes the kind's Go types, roles for its users and a sample;
with --controller a reconciler and its test. Both are the default. Then it
generates what follows from them, unless --make=false. A kind has one controller:
for its second version none is made. What is there already stays as it is, so
that running the command twice changes nothing.`,
		Example: `  kelson create api --group webapp --version v1 --kind Welcome
  kelson create api --group config --version v2 --kind ProjectConfig --controller=false
  kelson create api --group apps --version v1 --kind Deployment --resource=false`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api.ClusterScoped = !namespaced
			changes, err := scaffold.CreateAPI(".", api)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return follow(c.Context(), c.OutOrStdout(), generate && len(changes) > 0)
		},
	}
	addKindFlags(c, &api.Group, &api.Version, &api.Kind)
	f := c.Flags()
	f.StringVar(&api.Plural, "plural", "", "the kind's plural (default: by the rules of English)")
	f.BoolVar(&api.Resource, "resource", true, "make the kind")
	f.BoolVar(&api.Controller, "controller", true, "make its controller")
	f.BoolVar(&namespaced, "namespaced", true, "objects of the kind are in namespaces")
	f.BoolVar(&generate, "make", true, "generate what follows from it")
	f.BoolVar(&api.Force, "force", false, "overwrite files that are there")
	return c
}

func addKindFlags(c *cobra.Command, group, version, kind *string) {
	f := c.Flags()
	f.StringVar(group, "group", "", "the kind's API group, without the project's domain")
	f.StringVar(version, "version", "", "its version, such as v1 or v1alpha1")
	f.StringVar(kind, "kind", "", "the kind, such as Welcome")
	_ = c.MarkFlagRequired("version")
	_ = c.MarkFlagRequired("kind")
}

// follow generates what follows from a change of the project in the current folder.
func follow(ctx context.Context, out io.Writer, generate bool) error {
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

With --conversion the version becomes the hub of the kind: all its other
versions, or those that --spoke names, are converted to and from it. The operator
makes and renews the certificates of its webhooks itself.`,
		Example: `  kelson create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation
  kelson create webhook --group batch --version v1 --kind CronJob --conversion --spoke v2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			changes, err := scaffold.CreateWebhook(".", hook)
			if err != nil {
				return err
			}
			report(c.OutOrStdout(), changes)
			return follow(c.Context(), c.OutOrStdout(), generate && len(changes) > 0)
		},
	}
	addKindFlags(c, &hook.Group, &hook.Version, &hook.Kind)
	f := c.Flags()
	f.BoolVar(&hook.Defaulting, "defaulting", false, "fill in what users leave out")
	f.BoolVar(&hook.Validation, "programmatic-validation", false, "refuse what is wrong")
	f.BoolVar(&hook.Conversion, "conversion", false, "convert between versions")
	f.StringSliceVar(&hook.Spokes, "spoke", nil, "the versions that are converted to and from this one (default: all others)")
	f.BoolVar(&generate, "make", true, "generate what follows from it")
	f.BoolVar(&hook.Force, "force", false, "overwrite files that are there")
	return c
}
