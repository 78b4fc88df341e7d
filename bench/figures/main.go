// Command figures compares Kelson with kube-apiserver and etcd, row by row, on this machine and in
// one run: with TLS and the same client code on both sides, each with durable and with non-durable
// writes. The sides run one after the other, and share the CPUs only with the client. The server's
// CPU time is shown next to each figure.
//
//	figures                         # all rows of all sides: about twelve minutes
//	figures -run 'get-.*'           # some rows
//	figures -run list -sides 3      # of some columns
//	figures -etcd                   # one server and three of each kind, over the same etcd
//	figures -million                # a million objects in Kelson alone
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the values of the flags.
type options struct {
	kelson, peers, scratch   string
	kelsonArgs               []string
	docs, profiles           string
	filter                   *regexp.Regexp
	columns                  map[int]bool
	length, idle, patience   time.Duration
	objects, startRounds     int
	idleWatching, idleWrites int
	peerIdleWrites           int
	http2                    bool
	table                    *table
	million, millionBytes    int
}

func main() {
	o := &options{columns: map[int]bool{}}
	flag.StringVar(&o.kelson, "kelson", "bin/kelson", "the kelson binary")
	flag.StringVar(&o.peers, "peers", "bin/peers", "folder with etcd and kube-apiserver")
	flag.StringVar(&o.scratch, "scratch", "",
		"folder for the state of the servers: its disk is measured too (default that for temporary files)")
	flag.StringVar(&o.docs, "docs", "", "page whose part is replaced by the table; only when all rows are measured")
	args := flag.String("kelson-args", "", "further arguments of kelson serve")
	run := flag.String("run", "", "only rows whose id matches")
	only := flag.String("sides", "", "only these columns, by number: 0 peer, 1 kelson, both durable; 2 peer, 3 kelson, both not")
	flag.DurationVar(&o.length, "length", 3*time.Second, "how long a verb is measured")
	flag.DurationVar(&o.idle, "idle", 5*time.Second, "how long to wait without requests before a side's memory is read")
	flag.DurationVar(&o.patience, "patience", 3*time.Minute,
		"how long the idle watchers may take to receive all writes")
	flag.IntVar(&o.objects, "objects", 10_000, "objects of each kind to store and read")
	flag.IntVar(&o.startRounds, "start-rounds", 5, "rounds of starts")
	flag.IntVar(&o.idleWatching, "idle-watchers", 10_000, "idle watchers")
	flag.IntVar(&o.idleWrites, "idle-writes", 1000, "writes that the idle watchers see")
	flag.IntVar(&o.peerIdleWrites, "peer-idle-writes", 100, "… of the peer")
	flag.BoolVar(&o.http2, "http2", false, "clients speak HTTP/2, one connection each, instead of HTTP/1.1")
	etcd := flag.Bool("etcd", false, "instead: one server over one member of etcd, and three over three, of each kind")
	million := flag.Bool("million", false, "instead of the table: load, list and restart Kelson with many objects")
	flag.IntVar(&o.million, "million-objects", 1_000_000, "how many objects -million stores")
	flag.IntVar(&o.millionBytes, "million-bytes", len(payload), "bytes of data in each of them; 360 bytes come on top")
	flag.StringVar(&o.profiles, "profiles", "", "folder for processor profiles of kelson serve, one per row")
	merged := flag.String("merged", "", "file for the merged profiles of -profiles, in the form that the compiler needs")
	list := flag.Bool("list", false, "print the rows' ids")
	flag.Parse()
	o.table = &alone
	if *etcd {
		o.table = &overEtcd
	}
	if *list {
		for _, r := range o.table.rows {
			fmt.Println(r.id)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := o.parse(*run, *only, *args)
	if err == nil && *million {
		err = o.runMillion(ctx)
	} else if err == nil {
		err = o.compare(ctx)
	}
	if err == nil && *merged != "" {
		err = mergeProfiles(o.profiles, *merged)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func (o *options) parse(run, only, args string) (err error) {
	o.kelsonArgs = strings.Fields(args)
	if run != "" {
		if o.filter, err = regexp.Compile("^(?:" + run + ")$"); err != nil {
			return err
		}
	}
	for _, s := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' }) {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 || i >= columns {
			return fmt.Errorf("-sides %s: must be numbers from 0 to 3", only)
		}
		o.columns[i] = true
	}
	if o.docs != "" && (o.filter != nil || only != "") {
		return fmt.Errorf("-docs needs all rows and all sides")
	}
	return nil
}

// wanted reports whether the table and the flags have any of these rows.
func (o *options) wanted(ids ...string) bool {
	return slices.ContainsFunc(o.table.rows, func(r row) bool {
		return slices.Contains(ids, r.id) && (o.filter == nil || o.filter.MatchString(r.id))
	})
}

func (o *options) wantedSide(i int) bool { return len(o.columns) == 0 || o.columns[i] }

func (o *options) warn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
	}
}

// compare measures all rows and prints them.
func (o *options) compare(ctx context.Context) error {
	begin := time.Now()
	r := &results{table: o.table}
	if err := o.inProcess(ctx, r); err != nil { // first, while the heap of this process is small
		return err
	}
	if err := o.starts(ctx, r); err != nil {
		return err
	}
	for i, s := range o.table.sides {
		if !o.wantedSide(i) {
			continue
		}
		if err := o.live(ctx, i, s, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		runtime.GC() // exclude this garbage from the next measurement
	}
	r.took = time.Since(begin)
	r.print(os.Stdout)
	if o.docs != "" {
		if err := r.writeDocs(o); err != nil {
			return err
		}
	}
	if !r.whole() {
		return errors.New("not all rows of kelson could be measured")
	}
	return nil
}

// step is a part of a server's life that measures rows.
type step struct {
	ids string
	run func(*life, context.Context) error
}

// steps are in the order of their dependencies.
var steps = []step{
	{"memory-idle memory-idle-own", func(l *life, ctx context.Context) error { return l.weigh(ctx, "memory-idle") }},
	{"create-cm-16 create-cr-16 memory-full memory-full-own list-cr get-cm-16 get-cm-64 get-cr-16 get-cr-64",
		(*life).fill},
	{"memory-full memory-full-own", func(l *life, ctx context.Context) error { return l.weigh(ctx, "memory-full") }},
	{"list-cr", (*life).list},
	{"get-cm-16 get-cm-64 get-cr-16 get-cr-64", (*life).reads},
	{"create-cm-64 create-cr-64 status-cr-16 status-cr-64 patch-cr-16 patch-cr-64 apply-cr-16 apply-cr-64 delete-cr-16 delete-cr-64", (*life).writes},
	{"watch-cm watch-cm-p99 watch-cr watch-cr-p99", (*life).watches},
}

// idleSteps have their own server, because the memory of idle watchers is visible only without
// other load.
var idleSteps = []step{{"idle-watchers idle-watchers-events", (*life).idleWatchers}}

// live measures the rows of one side. It records rows that fail; only the end of ctx is an error.
func (o *options) live(ctx context.Context, column int, s side, r *results) error {
	if err := o.serverLife(ctx, column, s, r, o.table.steps); err != nil {
		return err
	}
	if s.durable {
		return nil
	}
	return o.serverLife(ctx, column, s, r, o.table.idleSteps)
}

// serverLife runs the wanted steps on their own server.
func (o *options) serverLife(ctx context.Context, column int, s side, r *results, steps []step) error {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !o.wantsAny(s.ids) })
	if len(steps) == 0 {
		return nil
	}
	l := &life{options: o, column: column, results: r}
	var err error
	if l.server, err = o.start(ctx, s); err == nil {
		defer l.server.stop()
	}
	for _, step := range steps {
		failure := err // without a server, or the data that all steps need, all steps fail
		if failure == nil && !strings.HasPrefix(step.ids, "memory-idle") {
			err = l.prepare(ctx)
			failure = err
		}
		if failure == nil {
			failure = step.run(l, ctx)
		}
		if err := l.lost(ctx, failure, strings.Fields(step.ids)...); err != nil {
			return err
		}
	}
	return nil
}

// lost records the reason why rows could not be measured, for those of ids that are wanted and have
// no value yet. It returns an error only if ctx has ended.
func (l *life) lost(ctx context.Context, err error, ids ...string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	for _, id := range ids {
		if f := l.results.figures[l.column][id]; l.wanted(id) && !f.measured && f.failure == nil {
			l.set(id, figure{failure: err})
		}
	}
	return nil
}

func (o *options) wantsAny(lists ...string) bool {
	for _, ids := range lists {
		if o.wanted(strings.Fields(ids)...) {
			return true
		}
	}
	return false
}

// set records a figure and prints it.
func (l *life) set(id string, f figure) { l.results.set(l.column, id, f) }
