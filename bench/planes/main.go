// Command planes measures many control planes at once: 1,000 of them in one process, 100 tests in
// parallel, and the time from a saved file to the verdict of a scaffolded project's test. envtest
// with kube-apiserver and etcd runs the same tests. It runs on Linux only.
//
//	planes -kelson bin/kelson -peers bin/peers -docs docs/internals/benchmarks.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kelson.dev/test/section"
)

type options struct {
	kelson, peers, checkout string
	planes, tests           int
	profile                 string
}

// row is a row of the table. An empty text means that the side has no such figure.
type row struct{ what, target, kelson, envtest string }

func main() {
	var o options
	flag.StringVar(&o.kelson, "kelson", "bin/kelson", "the kelson binary, for the scaffolded project")
	flag.StringVar(&o.peers, "peers", "bin/peers", "folder with etcd and kube-apiserver; empty: measure kelson alone")
	flag.StringVar(&o.checkout, "checkout", ".", "Kelson's source, for the scaffolded project")
	flag.IntVar(&o.planes, "planes", 1000, "control planes in one process")
	flag.IntVar(&o.tests, "tests", 100, "tests in parallel")
	flag.StringVar(&o.profile, "profile", "",
		"write only profiles of the empty control planes, to the files with this prefix and .heap and .goroutines")
	docs := flag.String("docs", "", "page whose part is replaced by the table")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "planes:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context, docs string) error {
	var rows []row
	measures := []func(context.Context) ([]row, error){o.atRest, o.inParallel, o.verdict}
	if o.profile != "" {
		measures = measures[:1]
	}
	for _, measure := range measures {
		more, err := measure(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
		for _, r := range more {
			fmt.Fprintf(os.Stderr, "%s: %s%s\n", r.what, r.kelson, r.envtest)
		}
	}
	table := report(rows)
	fmt.Print(table)
	if docs == "" {
		return nil
	}
	return section.Replace(docs, begin, end, "\n"+table+"\n")
}

const (
	begin = "<!-- bench/planes -->\n"
	end   = "<!-- end of bench/planes -->\n"
)

func report(rows []row) string {
	var b strings.Builder
	b.WriteString("| | target | kelson | envtest |\n|---|--:|--:|--:|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.what, r.target, r.kelson, r.envtest)
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
