// Package why implements kelson why: it reads the traces that operators record and prints why an
// object is in its state.
package why

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/completion"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/causes"
	"kelson.dev/lab/diagnosis"
)

type options struct {
	traces    Traces
	audit     string
	namespace string
	last      int
	// of the cluster
	kubeconfig, context string
	output              output.Format
}

// Command returns kelson why.
func Command() *cobra.Command {
	opts := options{}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain the state of an object: what is wrong, who wrote it, and what caused that",
		Long: `Explain the state of an object: what is wrong, who wrote it, and what caused that.

The first part comes from the cluster in $KUBECONFIG: conditions, containers that
crash with the end of their logs, missing objects, Events, and the problems of
what the object owns or selects, the worst first, each with its source and what
would have to happen next. It works for every object of every cluster, and needs
only rights to read.

The second part says who wrote the object. Operators built with
kelson.dev/operator record a trace of each reconcile: the events that caused it
and its writes. This command reads traces from

  - the files and URLs of --trace; it connects the traces of several operators
  - otherwise, the trace of kelson dev, which is next to the file of its cluster in
    $KUBECONFIG

If no reconcile involves the object, it explains the nearest owner that a trace
has.

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
  kelson why pod/web-0 --audit-log audit.log
  kelson why deploy/web -n shop --kubeconfig prod.yaml`,
		ValidArgsFunction: completion.Objects,
		Args:              cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if opts.last < 1 {
				return fmt.Errorf("--last %d: must be at least 1", opts.last)
			}
			return run(c.Context(), opts, args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	opts.traces.AddFlags(f)
	f.StringVar(&opts.audit, "audit-log", "",
		"audit log in JSON, for programs that record no trace; - is standard input")
	f.StringVar(&opts.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: as for kubectl)")
	f.StringVar(&opts.context, "context", "", "context of the kubeconfig to use")
	f.StringVarP(&opts.namespace, "namespace", "n", "",
		"namespace of the object (default: that of the kubeconfig; in traces, any)")
	f.IntVar(&opts.last, "last", 5, "number of latest writes to show")
	opts.output.AddFlag(c)
	return c
}

func run(ctx context.Context, opts options, object string, out, warnings io.Writer) error {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" {
		return fmt.Errorf("invalid object %q: want KIND/NAME, for example pod/web", object)
	}
	traces := opts.traces
	if len(traces.Places) == 0 {
		traces.Places = DevTrace(clientcmd.NewDefaultClientConfigLoadingRules())
	}
	traced := len(traces.Places) > 0 || opts.audit != ""
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
	a := answer{}
	clusterErr := a.readCluster(ctx, opts, kind, name)
	if clusterErr != nil && !traced {
		if errors.Is(clusterErr, errNoCluster) {
			return errNoTrace
		}
		return clusterErr
	}
	if a.object != nil {
		kind, name = a.object.GetKind(), a.object.GetName()
	}
	a.find(t, log, opts, kind, name)
	if a.object == nil && len(a.found) == 0 {
		return a.nothing(opts, object, clusterErr)
	}
	if clusterErr != nil && !errors.Is(clusterErr, errNoCluster) {
		fmt.Fprintf(warnings, "the cluster does not show it: %v\n", clusterErr)
	}
	return a.print(t, log, opts, traced, out)
}

// answer holds the facts about an object.
type answer struct {
	cluster  *cluster
	object   *unstructured.Unstructured // nil if the cluster does not have it, or is unknown
	findings []diagnosis.Finding
	found    []causes.Object // in the traces
	// how the objects that were found own the object; empty if it is one of them
	owners string
}

// readCluster reads the object from the cluster in the kubeconfig.
func (a *answer) readCluster(ctx context.Context, opts options, kind, name string) (err error) {
	if a.cluster, err = openCluster(opts.kubeconfig, opts.context, opts.namespace); err != nil {
		return err
	}
	obj, err := a.cluster.read(kind, name)
	if err != nil {
		return err
	}
	if a.findings, err = a.cluster.diagnose(ctx, obj); err != nil {
		return err
	}
	a.object = obj
	return nil
}

// find looks for the object, or else its nearest owner, in the traces.
func (a *answer) find(t *causes.Trace, log *causes.Log, opts options, kind, name string) {
	namespace := opts.namespace
	if a.object != nil {
		namespace = a.object.GetNamespace()
	}
	if a.found = find(t, log, kind, namespace, name); len(a.found) > 0 || a.object == nil {
		return
	}
	chain, found, err := a.cluster.owners(a.object, func(kind, namespace, name string) []causes.Object {
		return find(t, log, kind, namespace, name)
	})
	if err == nil && len(found) > 0 {
		a.owners, a.found = chain, found
	}
}

// nothing returns the error if nothing is known about an object.
func (a *answer) nothing(opts options, object string, clusterErr error) error {
	none := "no recorded reconcile involves " + object
	if opts.audit != "" {
		none = fmt.Sprintf("%s has no successful write of %s, and no recorded reconcile involves it", opts.audit,
			object)
	}
	if clusterErr != nil && !errors.Is(clusterErr, errNoCluster) {
		return fmt.Errorf("%s, and the cluster does not show it: %w", none, clusterErr)
	}
	return errors.New(none)
}

func (a *answer) print(t *causes.Trace, log *causes.Log, opts options, traced bool, out io.Writer) error {
	if opts.output != output.Text {
		all := []causes.Explanation{}
		for _, o := range a.found {
			all = append(all, explanation(t, log, o, opts.last))
		}
		document := map[string]any{"explanations": all}
		if a.object != nil {
			document["findings"] = append([]diagnosis.Finding{}, a.findings...)
		}
		if a.owners != "" {
			document["owners"] = a.owners
		}
		return opts.output.Print(out, document)
	}
	p := printer{out, output.ColorsFor(out)}
	if a.object != nil {
		p.writeFindings(a.object, a.findings, time.Now())
		switch {
		case len(a.found) > 0:
			p.line(0, "\n%s", p.Faint("What operators and clients did, from their traces:"))
		case !traced:
			p.line(0, "\n%s", p.Faint("Who wrote it, and why, is unknown: no trace (--trace) and no audit log (--audit-log) is given."))
		default:
			p.line(0, "\n%s", p.Faint("No recorded reconcile involves it or its owners."))
		}
	}
	if a.owners != "" {
		p.line(0, "%s", a.owners)
	}
	for i, o := range a.found {
		if i > 0 || a.object != nil {
			fmt.Fprintln(out)
		}
		writeText(out, explanation(t, log, o, opts.last))
	}
	return nil
}
