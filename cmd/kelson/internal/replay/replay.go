// Package replay implements kelson replay.
package replay

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/explore"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/history"
	"kelson.dev/lab/replay"
)

// divergesCode is the exit code if the replay diverges from the history.
const divergesCode = exit.Code(2)

type options struct {
	managers []string
	from, to string
	quiet    time.Duration
	speed    float64
	format   output.Format
	gens     project.Generators
}

// Command returns kelson replay.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "replay FILE [DIR]",
		Short: "Run a project's operator against a recorded history and show where it diverges",
		Long: `Run a project's operator against a recorded history and show where it diverges.

FILE is a file of kelson record, or the data directory of kelson serve --history.
The replay begins with the recorded state. It repeats the writes of users,
Kubernetes' controllers and all other clients at the recorded times, and the
current operator in DIR reacts to them. After each quiet period of the history, it
compares the objects that the operator wrote, in the history or in the replay,
with the recorded ones. It ignores differences in times, UIDs and revisions.

Time is virtual: hours take seconds, and the operator's clock shows the recorded
times. --speed 10 slows the replay to ten times real time.

The operator is built as by kelson explore: any program in Go, with its own
versions of its dependencies, in a process of its own. It has all rights, and
webhooks are not called. --manager names the field managers of its
recorded writes, which are not repeated. The exit code is 0 if nothing diverges, 2
if anything does, 1 after an error, and 64 if the command line is wrong.`,
		Example: `  kelson replay incident.history
  kelson replay incident.history --from 2026-11-23T10:00:00Z --manager web-operator ./web
  kelson replay ./state --speed 10 .`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			order := replay.Order{Managers: o.managers, Quiet: o.quiet, Speed: o.speed}
			for _, t := range []struct {
				flag, text string
				to         *time.Time
			}{{"from", o.from, &order.From}, {"to", o.to, &order.To}} {
				if t.text == "" {
					continue
				}
				var err error
				if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
					return fmt.Errorf("--%s %q: want a time such as 2026-11-23T10:00:00Z", t.flag, t.text)
				}
			}
			switch {
			case o.quiet <= 0:
				return fmt.Errorf("--quiet %v: want a positive duration", o.quiet)
			case o.speed < 0 || c.Flags().Changed("speed") && o.speed == 0:
				return fmt.Errorf("--speed %v: want a positive number", o.speed)
			}
			var err error
			if order.History, err = filepath.Abs(args[0]); err != nil {
				return err
			}
			return run(c, project.Folder(args[1:]), order, o)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.managers, "manager", nil,
		"field managers of the operator's recorded writes (default: the only one in the history that does not belong to Kubernetes or a common tool)")
	f.StringVar(&o.from, "from", "", "time from which to replay (default: the beginning of the history)")
	f.StringVar(&o.to, "to", "", "time until which to replay (default: the end of the history)")
	f.DurationVar(&o.quiet, "quiet", time.Second,
		"length of a quiet period, after which objects are compared: longer than the recorded operator took to react")
	f.Float64Var(&o.speed, "speed", 0, "how much faster than real time to replay (default: as fast as possible)")
	o.format.AddFlag(c)
	o.gens.AddFlags(f)
	o.gens.AddSkipFlag(f)
	return c
}

func run(c *cobra.Command, dir string, order replay.Order, o options) error {
	if err := complete(&order); err != nil {
		return err
	}
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	if p.Server {
		return fmt.Errorf("%s is a custom API server: kelson replay runs operators", p.Dir)
	}
	out := c.OutOrStdout()
	c.SetOut(c.ErrOrStderr()) // the generators' messages are not part of the result
	defer c.SetOut(out)
	if err := project.Generate(c, p.Dir, o.gens); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kelson-replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	progress := output.NewProgress(c.ErrOrStderr())
	defer progress.Done()
	progress.Step("building the operator")
	binary, release, err := explore.BuildProgram(c.Context(), p, temp, nil)
	if err != nil {
		return err
	}
	defer release()
	progress.Step("replaying %s", order.History)
	begin := time.Now()
	// Kubernetes' code logs errors that it resolves.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	result, err := replay.Drive(c.Context(), order, binary, p.Dir, p.Args)
	if err != nil {
		return err
	}
	progress.Done()
	if o.format != output.Text {
		err = o.format.Print(out, result)
	} else {
		err = text(out, result, time.Since(begin))
	}
	if err == nil && len(result.Divergences) > 0 {
		err = divergesCode
	}
	return err
}

// complete checks the history and finds the operator's field manager in it.
func complete(order *replay.Order) (err error) {
	h, err := history.Open(order.History)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if len(order.Managers) > 0 {
		return nil
	}
	found, err := replay.Managers(h)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return errors.New("the history has no writes of an operator: pass its field manager with --manager")
	case len(found) > 1:
		return fmt.Errorf("the history has writes of several field managers: pass those of the operator with --manager: %s", strings.Join(found, ", "))
	}
	order.Managers = found
	return nil
}

func text(out io.Writer, r *replay.Result, took time.Duration) error {
	color := output.ColorsFor(out)
	value := func(v string) string {
		if v == "" {
			return "(absent)"
		}
		return v
	}
	var b strings.Builder
	for _, d := range r.Divergences {
		fmt.Fprintf(&b, "%s  %s", d.Since.Format(time.RFC3339), color.Bold(d.Key().String()))
		if d.Until != nil {
			fmt.Fprintf(&b, "  until %s", d.Until.Format(time.RFC3339))
		}
		b.WriteByte('\n')
		switch d.Only {
		case "recorded":
			b.WriteString("    existed; does not exist now\n")
		case "replayed":
			b.WriteString("    did not exist; exists now\n")
		}
		for _, c := range d.Changes {
			fmt.Fprintf(&b, "    %s: was %s, now %s\n", c.Path, color.Bad(value(c.From)), color.Good(value(c.To)))
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	fmt.Fprintf(&b, "replayed %s in %s: %d writes of others, %d objects compared at %d moments, %d divergences\n",
		r.To.Sub(r.From).Round(time.Second), took.Round(10*time.Millisecond), r.Inputs, r.Objects, r.Moments,
		len(r.Divergences))
	_, err := io.WriteString(out, b.String())
	return err
}
