// Package why implements kelson why: it reads the traces that operators record and prints why an
// object is in its state.
package why

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/completion"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/causes"
)

type options struct {
	traces    Traces
	audit     string
	namespace string
	last      int
	output    output.Format
}

// Command returns kelson why.
func Command() *cobra.Command {
	opts := options{}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain the state of an object: which reconciles wrote it and what caused them",
		Long: `Explain the state of an object: which reconciles wrote it and what caused them.

Operators built with kelson.dev/operator record a trace of each reconcile: the
events that caused it and its writes. This command reads traces from

  - the files and URLs of --trace; it connects the traces of several operators
  - otherwise, the trace of kelson dev, which is next to the file of its cluster in
    $KUBECONFIG

If no reconcile involves the object, the command reads it from the cluster in
$KUBECONFIG and explains its nearest owner that a trace has.

An operator writes its trace to a file if its environment has
KELSON_TRACE=file:PATH. With the flag --trace-bind-address, it serves the trace
of its latest reconciles over HTTP. These answers are exact.

For other programs, --audit-log reads an audit log of any cluster. The command
matches what each program watched with what it then wrote: owners, names and
contents, and times. These answers begin with "probably" and show the
evidence. Chains run through Kubernetes' controllers to the first cause: a
person's request, a schedule or a node. An audit log at level RequestResponse has
more evidence than one at Metadata. With --trace too, the writes in the traces stay
exact.`,
		Example: `  kelson why pod/example-at
  kelson why at/example-at -n default --trace http://localhost:8090 --trace other.trace
  kelson why pod/web-0 --audit-log audit.log`,
		ValidArgsFunction: completion.Objects,
		Args:              cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if opts.last < 1 {
				return fmt.Errorf("--last %d: must be at least 1", opts.last)
			}
			return run(c.Context(), opts, args[0], c.OutOrStdout())
		},
	}
	f := c.Flags()
	opts.traces.AddFlags(f)
	f.StringVar(&opts.audit, "audit-log", "", "audit log in JSON, for programs that record no trace; - is standard input")
	f.StringVarP(&opts.namespace, "namespace", "n", "", "namespace of the object (default: any)")
	f.IntVar(&opts.last, "last", 5, "number of latest writes to show")
	opts.output.AddFlag(c)
	return c
}

func run(ctx context.Context, opts options, object string, out io.Writer) error {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" {
		return fmt.Errorf("invalid object %q: want KIND/NAME, for example pod/web", object)
	}
	traces := opts.traces
	if len(traces.Places) == 0 {
		traces.Places = DevTrace(clientcmd.NewDefaultClientConfigLoadingRules())
		if len(traces.Places) == 0 && opts.audit == "" {
			return errNoTrace
		}
	}
	t, err := traces.Read(ctx)
	if err != nil {
		return err
	}
	var log *causes.Log
	if opts.audit != "" {
		if log, err = readLog(opts.audit); err != nil {
			return err
		}
		log.Attach(t)
	}
	found, chain := find(t, log, kind, opts.namespace, name), ""
	if len(found) == 0 {
		chain, found, err = ownersInTraces(ctx, opts.namespace, kind, name, func(kind, namespace, name string) []causes.Object {
			return find(t, log, kind, namespace, name)
		})
	}
	if len(found) == 0 {
		none := "no recorded reconcile involves " + object
		if log != nil {
			none = fmt.Sprintf("%s has no successful write of %s, and no recorded reconcile involves it", opts.audit, object)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s; its owners are unknown: %w", none, err)
		case strings.Contains(chain, ","):
			return fmt.Errorf("%s, or its owners (%s)", none, chain)
		}
		return errors.New(none)
	}
	if opts.output != output.Text {
		all := []causes.Explanation{}
		for _, o := range found {
			all = append(all, explanation(t, log, o, opts.last))
		}
		document := map[string]any{"explanations": all}
		if chain != "" {
			document["owners"] = chain
		}
		return opts.output.Print(out, document)
	}
	if chain != "" {
		fmt.Fprintf(out, "%s\n\n", chain)
	}
	for i, o := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		writeText(out, explanation(t, log, o, opts.last))
	}
	return nil
}
