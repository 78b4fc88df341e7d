package history

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/diagnosis"
	"kelson.dev/lab/history"
)

// diffOptions are the flags of kelson diff.
type diffOptions struct {
	options
	from, to string
	since    time.Duration
}

// DiffCommand returns kelson diff.
func DiffCommand() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff [KIND[/NAME]]",
		Short: "Compare the objects of a cluster at two moments",
		Long: `Compare the objects of a cluster at two moments.

A moment is a revision (a resourceVersion) or a time in RFC 3339; without a fraction,
it is the end of the second. The versions come from a file that kelson record wrote,
or from the data directory of kelson serve --history.

With --since, the moments are a time ago and now. The command then shows the newest
changes first, and after them which objects have begun to fail since.`,
		Example: `  kelson diff --since 10m
  kelson diff --since 1h --file incident.history -n shop
  kelson diff --file incident.history --from 2026-11-23T10:00:00Z deployments`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.complete,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if c.Flags().Changed("since") && o.since <= 0 {
				return fmt.Errorf("--since %s: must be a positive duration, such as 10m", o.since)
			}
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			h, err := o.read(progress)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			a, b, err := o.moments(h, time.Now())
			if err != nil {
				return err
			}
			keys, err := o.selected(h, args)
			if err != nil {
				return err
			}
			all := []object{}
			var failed []diagnosis.Finding
			progress.Step("comparing objects")
			for i, key := range keys {
				progress.Update("comparing objects: %d of %d", i+1, len(keys))
				one, err := o.compare(a, b, key)
				if err != nil {
					return err
				}
				if one.What != "" {
					all = append(all, one)
				}
				if o.since == 0 || one.What == "" {
					continue
				}
				begun, err := failures(a, b, key)
				if err != nil {
					return err
				}
				failed = append(failed, begun...)
			}
			progress.Done()
			if o.since == 0 {
				return o.print(all, c.OutOrStdout())
			}
			return o.printSince(all, failed, h, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.from, "from", "", "revision or time of the older state")
	c.Flags().StringVar(&o.to, "to", "", "revision or time of the newer state (default: the end of the history)")
	c.Flags().DurationVar(&o.since, "since", 0,
		"compare the state of this time ago with the present, the newest changes first: 10m")
	c.MarkFlagsOneRequired("from", "since")
	c.MarkFlagsMutuallyExclusive("from", "since")
	c.MarkFlagsMutuallyExclusive("to", "since")
	return c
}

// moments returns the states to compare.
func (o *diffOptions) moments(h *history.History, now time.Time) (a, b history.State, err error) {
	b = h.At(h.Newest())
	if o.since > 0 {
		return h.AtTime(now.Add(-o.since)), b, nil
	}
	if a, err = h.Parse(o.from); err != nil {
		return a, b, fmt.Errorf("--from: %w", err)
	}
	if o.to != "" {
		if b, err = h.Parse(o.to); err != nil {
			return a, b, fmt.Errorf("--to: %w", err)
		}
	}
	return a, b, nil
}

// selected returns the keys of the objects to compare.
func (o *diffOptions) selected(h *history.History, args []string) ([]history.Key, error) {
	if len(args) > 0 {
		return o.keys(h, args[0])
	}
	var keys []history.Key
	for _, r := range h.Resources() {
		for _, key := range h.Keys(r.Name()) {
			if o.namespace == "" || key.Namespace == o.namespace {
				keys = append(keys, key)
			}
		}
	}
	return keys, nil
}

// compare returns how an object differs between two states. The field What is empty if it does not
// differ.
func (o *options) compare(a, b history.State, key history.Key) (object, error) {
	one := object{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name}
	was, from, before, err := a.Get(key)
	if err != nil {
		return one, err
	}
	is, to, after, err := b.Get(key)
	switch {
	case err != nil:
		return one, err
	case !before && !after, was.Revision == is.Revision:
		return one, nil
	case !before:
		one.What = "created"
	case !after:
		one.What = "deleted"
	default:
		if one.Changes, err = history.Diff(from, to, o.show); err != nil || len(one.Changes) == 0 {
			return one, err
		}
		one.What = "changed"
	}
	at := is.Time.UTC()
	one.Time = &at
	if after {
		one.By, err = writers(from, to, is.Time)
	}
	return one, err
}

// failures returns the problems that an object has in the state b and had not in the state a.
func failures(a, b history.State, key history.Key) ([]diagnosis.Finding, error) {
	was, err := problems(a, key)
	if err != nil {
		return nil, err
	}
	is, err := problems(b, key)
	return slices.DeleteFunc(is, func(f diagnosis.Finding) bool {
		return slices.ContainsFunc(was, func(g diagnosis.Finding) bool {
			return g.Source == f.Source && (g.Since.Equal(f.Since) ||
				digits.ReplaceAllString(g.Text, "") == digits.ReplaceAllString(f.Text, ""))
		})
	}), err
}

// digits are counts in texts, such as that of restarts.
var digits = regexp.MustCompile(`[0-9]+`)

// problems returns the problems that an object shows in a state.
func problems(s history.State, key history.Key) ([]diagnosis.Finding, error) {
	v, data, ok, err := s.Get(key)
	if err != nil || !ok {
		return nil, err
	}
	var obj unstructured.Unstructured
	if err := obj.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("%v at revision %d: %w", key, v.Revision, err)
	}
	return diagnosis.Itself(&obj, time.Now()), nil
}

// printSince prints the objects that changed, the newest first, and what has failed since.
func (o *diffOptions) printSince(all []object, failed []diagnosis.Finding, h *history.History, out io.Writer) error {
	slices.SortStableFunc(all, func(a, b object) int { return b.Time.Compare(*a.Time) })
	if o.output != output.Text {
		return o.output.Print(out, map[string]any{"objects": all, "failed": failed})
	}
	if len(all) == 0 {
		_, newest := h.Span()
		_, err := fmt.Fprintf(out, "nothing changed in the last %s; the last version is of %s\n", o.since,
			newest.UTC().Format(time.RFC3339))
		return err
	}
	if err := o.print(all, out); err != nil || len(failed) == 0 {
		return err
	}
	color := output.ColorsFor(out)
	fmt.Fprintf(out, "\n%s\n", color.Bold("has failed since:"))
	for _, f := range failed {
		since := ""
		if !f.Since.IsZero() {
			since = color.Faint("  since " + f.Since.UTC().Format(time.RFC3339))
		}
		fmt.Fprintf(out, "  %s: %s%s\n", f.Object, color.Bad(f.Text), since)
	}
	return nil
}
