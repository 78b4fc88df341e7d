// Package blame implements kelson blame.
package blame

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"kelson.dev/cmd/kelson/internal/completion"
	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/lookup"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/history"
)

// Command returns kelson blame.
func Command() *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var configFile, kubeContext, namespace string
	flags.KubeConfig, flags.Context, flags.Namespace = &configFile, &kubeContext, &namespace
	var format output.Format
	c := &cobra.Command{
		Use:   "blame KIND/NAME [FIELD]",
		Short: "Show who set each field of an object, and when",
		Long: `Show who set each field of an object, and when.

The managers come from the object's managedFields, which every API server
maintains: the last manager that changed a field, or those that apply it. The
values of Secrets are hidden.

FIELD limits the output to a field and those below it, for example .spec or
.spec.containers[web]. Items of a list are named by name or type if these are
unique in the list, and otherwise by index, as in kelson history.

kelson why shows the reconciles behind an operator's writes, and kelson history
earlier values.`,
		Example: `  kelson blame deployment/web
  kelson blame deployment/web .spec.replicas -o json`,
		ValidArgsFunction: completion.Objects,
		Args:              cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			field := ""
			if len(args) == 2 {
				field = "." + strings.TrimPrefix(args[1], ".")
			}
			if _, _, err := kubeconfig.Load(configFile, kubeContext); err != nil {
				return err
			}
			object, err := get(flags, args[0])
			if err != nil {
				return err
			}
			fields, err := fieldsOf(object)
			if err != nil {
				return err
			}
			fields = slices.DeleteFunc(fields, func(f Field) bool { return !history.Within(f.Path, field) })
			if len(fields) == 0 {
				return fmt.Errorf("no manager of %s set a field %s: kelson blame %[1]s shows how the fields are named",
					args[0], field)
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(), map[string]any{
					"kind": object.GetKind(), "namespace": object.GetNamespace(), "name": object.GetName(),
					"fields": fields,
				})
			}
			return print(c.OutOrStdout(), fields)
		},
	}
	c.Flags().StringVar(&configFile, "kubeconfig", "", "kubeconfig of the cluster (default: as for kubectl)")
	c.Flags().StringVar(&kubeContext, "context", "", "context of the kubeconfig to use")
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the object (default: that of the kubeconfig)")
	format.AddFlag(c)
	return c
}

// get reads the object that an argument such as deployment/web names.
func get(flags *genericclioptions.ConfigFlags, name string) (*unstructured.Unstructured, error) {
	kind, object, ok := strings.Cut(name, "/")
	if !ok || kind == "" || object == "" {
		return nil, fmt.Errorf("%q: want KIND/NAME", name)
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	return lookup.Object(flags, namespace, kind, object)
}

func print(out io.Writer, fields []Field) error {
	// The column writer counts color codes as text, so only the last column is colored.
	colors := output.ColorsFor(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIELD\tMANAGER\tOPERATION\tTIME\tVALUE")
	for _, f := range fields {
		manager, when := f.Manager, "-"
		if f.Subresource != "" {
			manager += " (" + f.Subresource + ")"
		}
		if !f.Time.IsZero() {
			when = f.Time.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Path, manager, f.Operation, when, colors.Faint(f.text()))
	}
	return w.Flush()
}
