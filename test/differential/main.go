// Command differential sends the same requests to kube-apiserver and to Kelson and compares the
// responses field by field: code, headers and body. It fails if there are differences that are not
// in the list of accepted ones (allowed.go).
//
//	go build -o bin/peers/ ./bench/peers/... && go run ./test/differential -kelson bin/kelson -peers bin/peers
//
// The requests come from the peer's discovery and OpenAPI documents, from one sample of each kind
// (samples.yaml) and from a seed. For each kind and version there are requests that should succeed
// and that should fail, with every verb, encoding and option. A stream has the requests for one
// kind, in its own namespace. The comparison ignores only values that necessarily differ: uids and
// resource versions must correspond and have the same order, and times must have the same format.
//
// -run NAME -seed N repeats one stream. -shrink finds the fewest requests that show a difference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"kelson.dev/kubernetes/linked"
	"kelson.dev/test/admission/attributes"
)

type options struct {
	kelson, peers, docs, work, admission string
	components                           string
	attributes                           string
	run, label                           *regexp.Regexp
	seed                                 uint64
	seeds, parallel, examples            int
	limit                                time.Duration
	shrink                               bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("differential: ")
	var opts options
	flag.StringVar(&opts.kelson, "kelson", "bin/kelson", "the kelson binary")
	flag.StringVar(&opts.peers, "peers", "bin/peers", "folder with etcd and kube-apiserver")
	flag.StringVar(&opts.components, "components", "",
		"folder with kube-controller-manager, whose requests are compared, too")
	flag.StringVar(&opts.docs, "docs", "", "page to write; only a run of everything may")
	flag.StringVar(&opts.attributes, "attributes", "",
		"file to write what kube-apiserver's admission sees, for test/admission/attributes")
	flag.StringVar(&opts.work, "work", "", "folder for logs and the report (default a new one)")
	flag.StringVar(&opts.admission, "disable-admission-plugins", "ServiceAccount", "for both sides")
	run := flag.String("run", "", "regular expression over the names of streams")
	label := flag.String("label", "", "regular expression that selects reported differences by label")
	flag.Uint64Var(&opts.seed, "seed", 1, "the first seed")
	flag.IntVar(&opts.seeds, "seeds", 1, "how many seeds")
	flag.IntVar(&opts.parallel, "parallel", 6, "number of streams that run at a time")
	flag.IntVar(&opts.examples, "examples", 1, "how many examples of a difference to show")
	flag.DurationVar(&opts.limit, "limit", 20*time.Minute, "end after this time")
	flag.BoolVar(&opts.shrink, "shrink", false, "find the fewest requests for each difference")
	flag.Parse()
	opts.run, opts.label = regexp.MustCompile(*run), regexp.MustCompile(*label)
	if opts.docs != "" && *run+*label != "" {
		log.Fatal("-docs needs a run of everything: omit -run and -label")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, opts.limit)
	defer cancel()
	if err := differential(ctx, opts); err != nil {
		log.Fatal(err)
	}
}

func differential(ctx context.Context, opts options) (err error) {
	if opts.work == "" {
		if opts.work, err = os.MkdirTemp("", "differential-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(opts.work, 0o755); err != nil {
		return err
	}
	servers, err := startServers(ctx, opts.work, opts.kelson, opts.peers, opts.admission)
	if err != nil {
		return err
	}
	defer servers.stop()
	if err := servers.compact(ctx); err != nil {
		return err
	}
	r := &runner{peer: servers.peer, kelson: servers.kelson}
	begin := time.Now()
	var all []*sending
	var streams []*stream
	for seed := opts.seed; seed < opts.seed+uint64(opts.seeds); seed++ {
		if streams, err = r.plan(ctx, opts, seed); err != nil {
			return err
		}
		for _, s := range streams {
			all = append(all, &sending{stream: s, round: fmt.Sprintf("s%d", seed)})
		}
	}
	found := r.sendAll(ctx, all, opts.parallel)
	if opts.components != "" && opts.run.MatchString("controllers/deletions") && ctx.Err() == nil {
		more, err := r.deletions(ctx, servers, opts)
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	if ctx.Err() != nil {
		opts.docs = "" // the run is incomplete: print the report, but do not write the page
	}
	fmt.Println("longest streams:", longest(all))
	rep := newReport(found, opts, len(streams), r.count, time.Since(begin))
	if opts.shrink {
		r.shrink(ctx, rep, all)
	}
	if opts.attributes != "" && ctx.Err() == nil {
		if err := attributes.Write(opts.attributes, "kube-apiserver "+linked.Kubernetes, r.attributes); err != nil {
			return err
		}
	}
	servers.stop()
	fmt.Println("CPU time:", servers.cpu())
	return errors.Join(ctx.Err(), rep.finish(opts))
}

// plan returns the streams of a seed.
func (r *runner) plan(ctx context.Context, opts options, seed uint64) (streams []*stream, err error) {
	kinds, err := discover(ctx, r.peer)
	if err != nil {
		return nil, err
	}
	served, err := discover(ctx, r.kelson)
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{}
	for _, k := range served {
		ours[k.String()] = true
	}
	var common []*kind
	for _, k := range kinds {
		if ours[k.String()] {
			common = append(common, k)
		}
		if k.sample != nil && ours[k.String()] {
			s := kindStream(k, seed)
			switch k.resource {
			case "flowschemas":
				s.collection, s.reacted = k.collection(""), flowControlSeen
			case "servicecidrs": // dry runs of Services use one of several ranges at random
				s.alone = true
			}
			streams = append(streams, s)
		}
		if k.String() == "v1/services" {
			streams = append(streams, familyStream(k, seed))
		}
		if k.String() == "v1/pods" {
			streams = append(streams, podStreams(k, seed)...)
		}
	}
	streams = append(streams, generatedStreams(ctx, r.peer, common, seed)...)
	documents, err := documentStreams(ctx, r.peer)
	if err != nil {
		return nil, err
	}
	streams = append(append(streams, documents...), definitionStreams(seed)...)
	streams = append(append(streams, encodedStreams(seed)...), attributeStream())
	streams = append(append(streams, largeStreams(seed)...), specialStreams(seed)...)
	var chosen []*stream
	for _, s := range streams {
		if opts.run.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// newRand returns the random source of a stream.
func newRand(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
