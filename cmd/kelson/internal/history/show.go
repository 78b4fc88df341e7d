package history

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/history"
)

type options struct {
	source
	namespace string
	show      history.DiffOptions
	output    output.Format
}

// object is an object with its versions, or with its differences between two moments, in JSON and
// YAML.
type object struct {
	Resource  string           `json:"resource"`
	Namespace string           `json:"namespace,omitempty"`
	Name      string           `json:"name"`
	Versions  []version        `json:"versions,omitempty"`
	What      string           `json:"what,omitempty"` // created, changed or deleted
	Time      *time.Time       `json:"time,omitempty"` // of the last version, if What is set
	By        []string         `json:"by,omitempty"`   // field managers, the last writer first
	Changes   []history.Change `json:"changes,omitempty"`
}

type version struct {
	Revision uint64           `json:"revision"`
	Time     time.Time        `json:"time"`
	What     string           `json:"what"`         // created, changed or deleted
	By       []string         `json:"by,omitempty"` // field managers, the last writer first
	Changes  []history.Change `json:"changes,omitempty"`
}

func (o *options) addFlags(c *cobra.Command) {
	o.source.addFlags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the objects (default: any)")
	o.output.AddFlag(c)
	c.Flags().BoolVar(&o.show.Secrets, "secrets", false, "show the values of Secrets")
	c.Flags().BoolVar(&o.show.Metadata, "metadata", false, "show changes of resourceVersion and managedFields")
}

// Command returns kelson history.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "history KIND/NAME",
		Short: "Show every version of an object and what changed in it",
		Long: `Show every version of an object and what changed in it.

The versions come from a file that kelson record wrote, or from the data directory
of kelson serve --history. The first recorded version is shown as created, even if
the object is older.`,
		Example: `  kelson history --file incident.history deployment/web -n shop
  kelson history --data-dir ./state at/example-at`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.complete,
		RunE: func(c *cobra.Command, args []string) (err error) {
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			h, err := o.read(progress)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			keys, err := o.keys(h, args[0])
			if err != nil {
				return err
			}
			all := []object{}
			progress.Step("comparing versions")
			for i, key := range keys {
				progress.Update("comparing versions: %d of %d objects", i+1, len(keys))
				one, err := o.versions(h, key)
				if err != nil {
					return err
				}
				all = append(all, one)
			}
			progress.Done()
			return o.print(all, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	c.AddCommand(blameCommand(), importCommand())
	return c
}

// keys returns the keys of the objects that the argument KIND/NAME, or KIND, selects. As for
// kubectl, the namespace has no effect on kinds without namespaces.
func (o *options) keys(h *history.History, object string) ([]history.Key, error) {
	kind, name, _ := strings.Cut(object, "/")
	found := h.Find(kind)
	if len(found) == 0 {
		return nil, fmt.Errorf("the history has no resource %q", kind)
	}
	var keys []history.Key
	for _, r := range found {
		for _, key := range h.Keys(r.Name()) {
			if (name == "" || key.Name == name) &&
				(o.namespace == "" || key.Namespace == o.namespace || key.Namespace == "") {
				keys = append(keys, key)
			}
		}
	}
	switch {
	case len(keys) == 0 && o.namespace != "":
		return nil, fmt.Errorf("the history has no object %q in namespace %q", object, o.namespace)
	case len(keys) == 0:
		return nil, fmt.Errorf("the history has no object %q", object)
	}
	return keys, nil
}

// writers returns the field managers that made a version, as kelson history blame shows them.
func writers(before, data []byte, at time.Time) (names []string, err error) {
	all, err := history.Writers(before, data, at)
	for _, o := range all {
		names = append(names, owners([]history.Owner{o}))
	}
	return names, err
}

func (o *options) versions(h *history.History, key history.Key) (object, error) {
	one := object{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name}
	var before []byte
	for v := range h.Versions(key) {
		_, data, _, err := h.At(v.Revision).Get(key)
		if err != nil {
			return one, err
		}
		next := version{Revision: v.Revision, Time: v.Time.UTC(), What: "changed"}
		if !v.Deleted {
			if next.By, err = writers(before, data, v.Time); err != nil {
				return one, err
			}
		}
		switch {
		case v.Deleted:
			next.What = "deleted"
		case before == nil:
			next.What = "created"
		default:
			if next.Changes, err = history.Diff(before, data, o.show); err != nil {
				return one, err
			}
		}
		one.Versions = append(one.Versions, next)
		before = data
	}
	return one, nil
}

// print writes objects in the format of --output.
func (o *options) print(all []object, out io.Writer) error {
	if o.output != output.Text {
		return o.output.Print(out, map[string]any{"objects": all})
	}
	color := output.ColorsFor(out)
	what := func(text string) string {
		switch text {
		case "created":
			return color.Good(text)
		case "deleted":
			return color.Bad(text)
		}
		return text
	}
	changes := func(list []history.Change) {
		for _, c := range list {
			fmt.Fprintf(out, "    %s: %s → %s\n", c.Path, color.Bad(value(c.From)), color.Good(value(c.To)))
		}
	}
	for _, one := range all {
		name := color.Bold(history.Key{Resource: one.Resource, Namespace: one.Namespace, Name: one.Name}.String())
		if one.What != "" {
			fmt.Fprintf(out, "%s: %s", name, what(one.What))
			if one.Time != nil {
				fmt.Fprintf(out, " %s", color.Faint(one.Time.Format(time.RFC3339)))
			}
			fmt.Fprintln(out, by(one.By))
			changes(one.Changes)
			continue
		}
		fmt.Fprintln(out, name)
		for _, v := range one.Versions {
			fmt.Fprintf(out, "  %d  %s", v.Revision, color.Faint(v.Time.Format(time.RFC3339)))
			if v.What != "changed" {
				fmt.Fprintf(out, "  %s", what(v.What))
			}
			fmt.Fprintln(out, by(v.By))
			changes(v.Changes)
		}
	}
	return nil
}

// by returns the end of a line that names the writers.
func by(writers []string) string {
	if len(writers) == 0 {
		return ""
	}
	return "  by " + strings.Join(writers, ", ")
}

func value(v string) string {
	if v == "" {
		return "(absent)"
	}
	return v
}
