package history

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/lab/history"
)

type options struct {
	file      string
	namespace string
	show      history.DiffOptions
}

func (o *options) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.file, "file", "", "history to read, as written by kelson record")
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the objects (default: any)")
	c.Flags().BoolVar(&o.show.Secrets, "secrets", false, "show the values of Secrets")
	c.Flags().BoolVar(&o.show.Metadata, "metadata", false, "show changes of resourceVersion and managedFields")
	c.MarkFlagRequired("file")
}

// Command returns kelson history.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "history KIND/NAME",
		Short: "Show every version of an object and what changed in it",
		Long: `Show every version of an object and what changed in it.

The versions come from a file that kelson record wrote. The first recorded version
is shown as created, also if the object is older than the recording.`,
		Example: `  kelson history --file incident.history deployment/web -n shop`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			h, err := history.Open(o.file)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			keys, err := o.keys(h, args[0])
			if err != nil {
				return err
			}
			for _, key := range keys {
				if err := o.versions(h, key, c.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	o.addFlags(c)
	return c
}

// keys returns the objects that KIND/NAME, or KIND, means.
func (o *options) keys(h *history.History, object string) ([]history.Key, error) {
	kind, name, _ := strings.Cut(object, "/")
	found := h.Find(kind)
	if len(found) == 0 {
		return nil, fmt.Errorf("the history has no resource %q", kind)
	}
	var keys []history.Key
	for _, r := range found {
		for _, key := range h.Keys(r.Name()) {
			if (name == "" || key.Name == name) && (o.namespace == "" || key.Namespace == o.namespace) {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("the history has no object %q", object)
	}
	return keys, nil
}

func (o *options) versions(h *history.History, key history.Key, out io.Writer) error {
	fmt.Fprintln(out, key)
	var before []byte
	for v := range h.Versions(key) {
		_, data, _, err := h.At(v.Revision).Get(key)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %d  %s", v.Revision, v.Time.UTC().Format(time.RFC3339))
		switch {
		case v.Deleted:
			fmt.Fprintln(out, "  deleted")
		case before == nil:
			fmt.Fprintln(out, "  created")
		default:
			fmt.Fprintln(out)
			if err := o.changes(before, data, out); err != nil {
				return err
			}
		}
		before = data
	}
	return nil
}

func (o *options) changes(from, to []byte, out io.Writer) error {
	changes, err := history.Diff(from, to, o.show)
	for _, c := range changes {
		fmt.Fprintf(out, "    %s: %s → %s\n", c.Path, value(c.From), value(c.To))
	}
	return err
}

func value(v string) string {
	if v == "" {
		return "(absent)"
	}
	return v
}

// DiffCommand returns kelson diff.
func DiffCommand() *cobra.Command {
	var o options
	var from, to string
	c := &cobra.Command{
		Use:   "diff [KIND[/NAME]]",
		Short: "Compare the objects of a cluster at two moments",
		Long: `Compare the objects of a cluster at two moments.

A moment is a revision (a resourceVersion) or a time in RFC 3339. The versions come
from a file that kelson record wrote.`,
		Example: `  kelson diff --file incident.history --from 2026-11-23T10:00:00Z deployments`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			h, err := history.Open(o.file)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			a, err := stateAt(h, from)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			b := h.At(h.Newest())
			if to != "" {
				if b, err = stateAt(h, to); err != nil {
					return fmt.Errorf("--to: %w", err)
				}
			}
			var keys []history.Key
			if len(args) > 0 {
				if keys, err = o.keys(h, args[0]); err != nil {
					return err
				}
			} else {
				for _, r := range h.Resources() {
					for _, key := range h.Keys(r.Name()) {
						if o.namespace == "" || key.Namespace == o.namespace {
							keys = append(keys, key)
						}
					}
				}
			}
			for _, key := range keys {
				if err := o.compare(a, b, key, c.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&from, "from", "", "revision or time of the older state")
	c.Flags().StringVar(&to, "to", "", "revision or time of the newer state (default: the end of the history)")
	c.MarkFlagRequired("from")
	return c
}

func (o *options) compare(a, b history.State, key history.Key, out io.Writer) error {
	was, from, before, err := a.Get(key)
	if err != nil {
		return err
	}
	is, to, after, err := b.Get(key)
	switch {
	case err != nil:
		return err
	case !before && !after, was.Revision == is.Revision:
	case !before:
		fmt.Fprintf(out, "%v: created\n", key)
	case !after:
		fmt.Fprintf(out, "%v: deleted\n", key)
	default:
		fmt.Fprintf(out, "%v: changed\n", key)
		return o.changes(from, to, out)
	}
	return nil
}

// stateAt returns the state at a revision or time.
func stateAt(h *history.History, moment string) (history.State, error) {
	if revision, err := strconv.ParseUint(moment, 10, 64); err == nil {
		return h.At(revision), nil
	}
	t, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return history.State{}, fmt.Errorf("invalid moment %q: want a revision or a time such as 2026-11-23T10:00:00Z", moment)
	}
	return h.AtTime(t), nil
}
