package explore

import "text/template"

// TestName is the test in the operator's main package that explores it, or replays a history.
const TestName = "TestKelsonExplore"

// partsProgram is the test of an operator that calls operator.Main. Each process of the operator
// calls main, in which kelsonExploreMain replaces operator.Main.
var partsProgram = template.Must(template.New("").Parse(`package main

import (
	"testing"

	"kelson.dev/lab/explore"
	"kelson.dev/lab/replay"
	"kelson.dev/operator"
)

var kelsonExploreParts []operator.Part

func kelsonExploreMain(parts ...operator.Part) { kelsonExploreParts = parts }

func kelsonExploreExit(code int) { panic("main has called os.Exit") }

func ` + TestName + `(t *testing.T) {
	run := explore.PartsOf(func() []operator.Part {
		kelsonExploreParts = nil
		main()
		return kelsonExploreParts
	})
	replay.Drive(t, run)
}
`))

// managerProgram is the test of an operator on controller-runtime. Each process of the operator
// calls main, with flags as at the start of a program. The functions that read the configuration,
// create the manager and wait for signals are replaced: the manager opens no ports, does not elect
// a leader, and ends with its process.
var managerProgram = template.Must(template.New("").Parse(`package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
{{if .Pflag}}	"github.com/spf13/pflag"
{{end}}	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/lab/replay"
)

// kelsonExplore is the process that starts. Only one starts at a time.
var kelsonExplore struct {
	starting sync.Mutex
	ctx      context.Context
	config   *rest.Config
	began    func()
	err      error // the last error that main logged
}

func kelsonExploreConfig() (*rest.Config, error) {
	if kelsonExplore.config == nil {
		return nil, errors.New("the configuration is read before main runs")
	}
	return rest.CopyConfig(kelsonExplore.config), nil
}

func kelsonExploreConfigOrDie() *rest.Config {
	config, err := kelsonExploreConfig()
	if err != nil {
		panic(err)
	}
	return config
}

func kelsonExploreSignals() context.Context { return kelsonExplore.ctx }

func kelsonExploreManager(config *rest.Config, o manager.Options) (manager.Manager, error) {
	skip := true // each process has controllers of the same names
	o.Controller.SkipNameValidation = &skip
	o.Metrics.BindAddress, o.HealthProbeBindAddress, o.PprofBindAddress = "0", "0", ""
	o.LeaderElection = false
	o.WebhookServer = &kelsonExploreWebhooks{kelsonExplore.ctx, http.NewServeMux()}
	o.Logger = logr.FromSlogHandler(explore.Log(kelsonExplore.ctx).Handler())
	m, err := manager.New(config, o)
	if err != nil {
		return nil, err
	}
	return &kelsonExploreManaged{m, kelsonExplore.ctx, kelsonExplore.began}, nil
}

// kelsonExploreManaged ends with its process, independently of the context that Start gets.
type kelsonExploreManaged struct {
	manager.Manager
	process context.Context
	began   func()
}

func (m *kelsonExploreManaged) Start(ctx context.Context) error {
	m.began()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.process, cancel)()
	return m.Manager.Start(ctx)
}

// kelsonExploreWebhooks serves webhooks without a port, or none if none are configured.
type kelsonExploreWebhooks struct {
	process context.Context
	mux     *http.ServeMux
}

func (*kelsonExploreWebhooks) NeedLeaderElection() bool                 { return false }
func (w *kelsonExploreWebhooks) Register(path string, h http.Handler)   { w.mux.Handle(path, h) }
func (w *kelsonExploreWebhooks) WebhookMux() *http.ServeMux             { return w.mux }
func (*kelsonExploreWebhooks) StartedChecker() healthz.Checker          { return healthz.Ping }

func (w *kelsonExploreWebhooks) Start(ctx context.Context) error {
	if !testenv.HasWebhooks(w.process) {
		<-ctx.Done()
		return nil
	}
	process, cancel := context.WithCancel(w.process)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return testenv.ServeWebhooks(process, w.mux)
}

var _ webhook.Server = &kelsonExploreWebhooks{}

type kelsonExploreExited int

func kelsonExploreExit(code int) { panic(kelsonExploreExited(code)) }

// kelsonExploreLog drops the operator's log, except the last error before the operator has started.
type kelsonExploreLog struct{}

func (kelsonExploreLog) Init(logr.RuntimeInfo)              {}
func (kelsonExploreLog) Enabled(int) bool                   { return false }
func (kelsonExploreLog) Info(int, string, ...any)           {}
func (l kelsonExploreLog) WithValues(...any) logr.LogSink   { return l }
func (l kelsonExploreLog) WithName(string) logr.LogSink     { return l }
func (kelsonExploreLog) Error(err error, message string, _ ...any) {
	if kelsonExplore.config != nil {
		kelsonExplore.err = fmt.Errorf("%s: %w", message, err)
	}
}

func kelsonExploreRun(ctx context.Context, config *rest.Config) (err error) {
	k := &kelsonExplore
	k.starting.Lock()
	k.ctx, k.config, k.err = ctx, config, nil
	k.began = sync.OnceFunc(func() {
		k.config = nil
		k.starting.Unlock()
	})
	began := k.began
	defer began()
	defer func() {
		v := recover()
		code, exited := v.(kelsonExploreExited)
		switch {
		case v != nil && !exited:
			err = explore.Panicked(v)
		case exited && k.err != nil:
			err = fmt.Errorf("main has called os.Exit(%d): %w", code, k.err)
		case exited:
			err = fmt.Errorf("main has called os.Exit(%d)", code)
		}
	}()
	// Each process registers its metrics.
	registry := prometheus.NewRegistry()
	metrics.Registry, prometheus.DefaultRegisterer, prometheus.DefaultGatherer = registry, registry, registry
	flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
{{if .Pflag}}	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
{{end}}	main()
	return nil
}

func ` + TestName + `(t *testing.T) {
	os.Args = os.Args[:1]
	log.SetLogger(logr.New(kelsonExploreLog{}))
	replay.Drive(t, kelsonExploreRun)
}
`))
