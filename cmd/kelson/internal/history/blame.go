package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/why"
	"kelson.dev/lab/causes"
	"kelson.dev/lab/history"
)

// blamed is an object with the writes that gave its fields their values, in JSON and YAML.
type blamed struct {
	Resource  string        `json:"resource"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name"`
	Writes    []blamedWrite `json:"writes,omitempty"` // the oldest first
	Unknown   []blamedField `json:"unknown,omitempty"`
}

// blamedWrite is a version with the fields that have had their values since then.
type blamedWrite struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	// OrEarlier is true if the version is the first recorded one: the value may be older.
	OrEarlier bool `json:"orEarlier,omitempty"`
	// Step is the write as recorded in the traces, with its reconcile and the causes of that.
	Step   *causes.Step  `json:"step,omitempty"`
	Fields []blamedField `json:"fields"`
}

type blamedField struct {
	Path   string          `json:"path"`
	Value  string          `json:"value"` // in JSON
	Owners []history.Owner `json:"owners,omitempty"`
}

type blameOptions struct {
	options
	at      string
	cluster string
	traces  why.Traces
}

// blameCommand returns kelson history blame.
func blameCommand() *cobra.Command {
	var o blameOptions
	c := &cobra.Command{
		Use:   "blame KIND/NAME [FIELD]",
		Short: "Show which write gave each field of an object its value, who made it and why",
		Long: `Show which write gave each field of an object its value, who made it and why.

For each field, it shows the version since which the field has its value, and the
field managers that own the field in that version. With the traces of operators
(see kelson why), it also shows the reconcile that made the version, and the
causes of that reconcile. FIELD limits the output to a field and those below it,
for example .spec or .spec.containers[web]. Items of a list are named by name or type
if these are unique in the list, and otherwise by index.

Unlike kelson blame, which reads the managedFields of an object in a cluster, it
compares versions. They come from a file that kelson record wrote, or from the data
directory of kelson serve --history. "or earlier" means that the history begins
with this version: the value may be older.`,
		Example: `  kelson history blame --file incident.history deployment/web -n shop
  kelson history blame --file incident.history at/example-at .status --trace operator.trace`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: o.complete,
		RunE: func(c *cobra.Command, args []string) (err error) {
			progress := output.NewProgress(c.ErrOrStderr())
			h, err := o.read(progress)
			progress.Done()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			field := ""
			if len(args) > 1 {
				field = "." + strings.TrimPrefix(args[1], ".")
			}
			return o.run(c.Context(), h, args[0], field, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	f := c.Flags()
	f.StringVar(&o.at, "at", "", "revision or time of the state to explain (default: the end of the history)")
	o.traces.AddFlags(f)
	f.StringVar(&o.cluster, "cluster", "", "name of the recorded cluster in traces of operators that run for several clusters")
	return c
}

func (o *blameOptions) run(ctx context.Context, h *history.History, object, field string, out io.Writer) error {
	if o.cluster != "" && len(o.traces.Places) == 0 {
		return errors.New("--cluster has no effect without --trace")
	}
	state := h.At(h.Newest())
	if o.at != "" {
		var err error
		if state, err = h.Parse(o.at); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	keys, err := o.keys(h, object)
	if err != nil {
		return err
	}
	traces, err := o.traces.Read(ctx)
	if err != nil {
		return err
	}
	all := []blamed{}
	exists := false
	for _, key := range keys {
		fields, ok, err := state.Blame(key, o.show)
		if err != nil {
			return err
		}
		exists = exists || ok
		fields = slices.DeleteFunc(fields, func(f history.Field) bool { return !history.Within(f.Path, field) })
		if len(fields) > 0 {
			all = append(all, o.group(h, traces, key, fields))
		}
	}
	switch {
	case !exists:
		return fmt.Errorf("%s does not exist at that moment: use kelson history to see its versions", object)
	case len(all) == 0:
		return fmt.Errorf("%s has no field %s", object, field)
	case o.output != output.Text:
		return o.output.Print(out, map[string]any{"objects": all})
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		one.write(out)
	}
	return nil
}

// group groups the fields of an object by version.
func (o *blameOptions) group(h *history.History, traces *causes.Trace, key history.Key, fields []history.Field) blamed {
	one := blamed{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name}
	writes := map[uint64]*blamedWrite{}
	for _, f := range fields {
		shown := blamedField{f.Path, f.Value, f.Owners}
		revision := f.Version.Revision
		if revision == 0 {
			one.Unknown = append(one.Unknown, shown)
			continue
		}
		w := writes[revision]
		if w == nil {
			w = &blamedWrite{Revision: revision, Time: f.Version.Time.UTC(), OrEarlier: f.First}
			writes[revision] = w
			written := causes.Object{Cluster: o.cluster, Kind: kindOf(h, key), Namespace: key.Namespace, Name: key.Name}
			if step, ok := traces.WriteOf(written, strconv.FormatUint(revision, 10)); ok {
				w.Step, w.OrEarlier = &step, w.OrEarlier && step.Write.Verb != "create"
			}
		}
		w.Fields = append(w.Fields, shown)
	}
	for _, w := range writes {
		one.Writes = append(one.Writes, *w)
	}
	slices.SortFunc(one.Writes, func(x, y blamedWrite) int { return cmp.Compare(x.Revision, y.Revision) })
	return one
}

func kindOf(h *history.History, key history.Key) string {
	for _, r := range h.Resources() {
		if r.Name() == key.Resource {
			return r.Kind
		}
	}
	return ""
}

// write prints an object: a paragraph for each version.
//
//	deployments.apps/shop/web
//
//	4802  2026-11-23T10:03:10Z
//	  patched by controller scaler (reconcile 2 of Scaler shop/web, 3ms)
//	    because Scaler shop/web was changed by kubectl-edit
//	  .spec.replicas: 0  scaler (Update)
func (b blamed) write(out io.Writer) {
	color := output.ColorsFor(out)
	fields := func(list []blamedField) {
		for _, f := range list {
			fmt.Fprintf(out, "  %s: %s", f.Path, f.Value)
			if len(f.Owners) > 0 {
				fmt.Fprintf(out, "  %s", color.Faint(owners(f.Owners)))
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintln(out, color.Bold(history.Key{Resource: b.Resource, Namespace: b.Namespace, Name: b.Name}.String()))
	for _, w := range b.Writes {
		fmt.Fprintf(out, "\n%d  %s", w.Revision, color.Faint(w.Time.Format(time.RFC3339)))
		if w.OrEarlier {
			fmt.Fprint(out, "  or earlier")
		}
		fmt.Fprintln(out)
		if w.Step != nil {
			why.WriteStep(out, 1, *w.Step)
		}
		fields(w.Fields)
	}
	if len(b.Unknown) > 0 {
		fmt.Fprintln(out, "\nunknown version: values of Secrets that are empty or were not recorded")
		fields(b.Unknown)
	}
}

// owners describes field managers: kubectl (Apply), kubelet (Update of status).
func owners(list []history.Owner) string {
	var all []string
	for _, o := range list {
		text := o.Manager + " (" + o.Operation
		if o.Subresource != "" {
			text += " of " + o.Subresource
		}
		all = append(all, text+")")
	}
	return strings.Join(all, ", ")
}
