package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator/trace"
)

// Main runs an operator as a program. It parses the command line, finds the API server, and runs
// until SIGINT or SIGTERM; a second signal ends the process immediately. Main exits with 0 after a
// clean stop, with 1 after an error, and with 2 after a wrong flag.
//
// The flags are those of a kubebuilder project's main, including --zap-*, further ones that -h
// lists, those that the part Flags adds, and those in flag.CommandLine. Do not call flag.Parse. The
// environment variable ENABLE_WEBHOOKS=false disables webhooks. Configure changes the resulting
// configuration; Setup runs a function before anything starts.
//
// The address of the API server comes from --kubeconfig, else from the environment variable
// KUBECONFIG, else from the cluster in which the program runs, else from ~/.kube/config.
//
// The operator's logger, Config.Log, becomes that of the packages log/slog, log and klog.
func Main(all ...Part) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // after the first signal, the default action applies again
	p := program{args: os.Args, getenv: os.Getenv, flags: flag.CommandLine, alone: true}
	code := p.run(ctx, all)
	stop()
	os.Exit(code)
}

// program has the inputs of Main.
type program struct {
	args   []string
	getenv func(string) string
	flags  *flag.FlagSet // flags of other packages; the log goes to its output
	alone  bool          // the operator may change process-wide settings
}

// run is Main with an exit code as its result.
func (pr program) run(ctx context.Context, all []Part) int {
	if pr.alone {
		ownsProcess.Store(pr.getenv(keepMemory) != "true")
	}
	stderr := pr.flags.Output()
	p, err := newParts(all)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	f := &flags{}
	err = f.parse(pr.flags, pr.args, p.flags)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	log := f.log.logger(stderr)
	if pr.alone {
		f.log.setDefaults(log)
	}
	cfg, err := f.config(pr.getenv)
	if err != nil {
		log.Error("start operator", "err", err)
		return 1
	}
	cfg.Log = log
	traceFile, err := trace.Open(pr.getenv(trace.Env))
	if err != nil {
		log.Error("open trace", "err", err)
		return 1
	}
	if traceFile != nil {
		defer func() {
			if err := traceFile.Close(); err != nil {
				log.Error("write trace", "err", err)
			}
		}()
		cfg.Trace = trace.JSON(traceFile)
	}
	var notFound error
	if cfg.REST, notFound = restConfig(f.kubeconfig, f.context, pr.getenv); notFound != nil {
		cfg.REST = &rest.Config{} // functions of Configure may set it
	}
	if err := p.configure(&cfg); err != nil {
		log.Error("start operator", "err", err)
		return 1
	}
	if cfg.Log != nil && cfg.Log != log {
		if log = cfg.Log; pr.alone {
			f.log.setDefaults(log)
		}
	}
	if cfg.REST == nil || notFound != nil && cfg.REST.Host == "" && cfg.REST.Transport == nil {
		log.Error("find API server", "err", notFound)
		return 1
	}
	log.Info("starting operator", "server", cfg.REST.Host)
	if err := p.run(ctx, cfg); err != nil {
		log.Error("operator failed", "err", err)
		return 1
	}
	log.Info("operator stopped")
	return 0
}

// restConfig locates the API server and loads its credentials.
func restConfig(kubeconfig, contextName string, getenv func(string) string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig == "" && contextName == "" && getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		cfg, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return cfg, err
		}
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: contextName}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}
