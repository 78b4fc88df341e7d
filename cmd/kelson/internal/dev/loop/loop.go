// Package loop implements the development loop: it runs an operator project against a cluster and
// repeats the affected steps after every change of its files.
//
//	types change          → generate, apply definitions, build, restart
//	other code changes    → generate, build, restart
//	samples change        → apply
//
// If the project does not compile, the loop logs the errors and the current operator keeps running.
// The operator serves its webhooks on this machine, with certificates for this run. A custom API
// server runs in the same way: the loop registers it with the cluster, at an address of this
// machine.
package loop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/cmd/kelson/internal/backend"
	"kelson.dev/cmd/kelson/internal/dev/deployed"
	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/cmd/kelson/internal/filewatch"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/operator/client"
	"kelson.dev/toolchain/loader"
)

// Config configures a Loop.
type Config struct {
	Project *project.Project
	// Client is a client of the cluster of Kubeconfig.
	Client     client.Client
	Kubeconfig string
	Log        *devlog.Log
	// Webhooks registers the project's webhooks, which the operator serves. If false, the operator
	// runs with ENABLE_WEBHOOKS=false.
	Webhooks bool
	// Generators configures the generators.
	Generators project.Generators
	// Unregister deletes the Services and APIServices of a custom API server when the loop stops.
	Unregister bool
	// Served is called after each start of a custom API server, when the cluster serves its
	// versions. The loop calls stop before it stops the server.
	Served func(ctx context.Context, versions []schema.GroupVersion) (stop func(), err error)
	// Reload repeats the affected steps when files change.
	Reload bool
	// Deploy, if not nil, runs the operator of an existing project as the project deploys it. The
	// loop sets its Dir and Output.
	Deploy *deployed.NodeConfig
	// Definitions and Samples list files and folders with further definitions to install, and with
	// the samples to apply instead of config/samples.
	Definitions, Samples []string
	// AuditLog is the file with the audit log of the cluster; "" if there is none.
	AuditLog string
}

// Loop is a running development loop. Its methods must not be called concurrently.
type Loop struct {
	cfg      Config
	cache    *loader.Cache
	temp     string
	binaries int // number of builds, for file names
	hooks    *webhooks
	backend  *backend.Backend // of a custom API server, or nil
	deployed *deployment      // of an existing project, or nil
	unfollow func()           // result of Config.Served, or nil

	binary   [sha256.Size]byte
	operator *project.Process
	applied  map[string][sha256.Size]byte // by kind and name

	generated map[string][]byte // by path

	unreadable string // the logged error of samples that cannot be read, or ""
}

// Start generates, builds and runs the project and applies its samples. It calls started, if not
// nil, after the definitions are installed and before the operator runs. The caller must call Stop.
func Start(ctx context.Context, cfg Config, started func() error) (_ *Loop, err error) {
	l := &Loop{cfg: cfg, cache: new(loader.Cache), applied: map[string][sha256.Size]byte{},
		generated: map[string][]byte{}}
	if l.temp, err = tempFolder(cfg.Deploy != nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Stop()
		}
	}()
	if err := l.generate(ctx, true); err != nil {
		return nil, err
	}
	if err := l.checkSamples(); err != nil {
		return nil, err
	}
	if cfg.Deploy != nil && !cfg.Project.Server {
		if l.deployed, err = newDeployment(l); err != nil {
			return nil, err
		}
	}
	if l.deployed != nil {
		// the cluster calls the webhooks of the operator in its pod
	} else if cfg.Project.Server {
		if l.backend, err = backend.New(cfg.Project, cfg.Client, cfg.Kubeconfig, l.temp); err != nil {
			return nil, err
		}
		cfg.Project.Args = append(cfg.Project.Args, "--data-dir="+filepath.Join(l.temp, "state"))
	} else if cfg.Webhooks {
		if l.hooks, err = newWebhooks(cfg.Project, l.temp); err != nil {
			return nil, err
		}
	}
	binary, err := l.build(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.definitions(ctx); err != nil {
		return nil, err
	}
	if started != nil {
		if err := started(); err != nil {
			return nil, err
		}
	}
	if err := l.restart(ctx, binary); err != nil {
		return nil, err
	}
	return l, l.samples(ctx)
}

// tempFolder creates a folder for the loop's files. If the operator runs in a pod, the folder is
// not in /tmp, because pods can mount volumes there.
func tempFolder(pods bool) (string, error) {
	if !pods {
		return os.MkdirTemp("", "kelson-dev-")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return os.MkdirTemp("", "kelson-dev-")
	}
	parent := filepath.Join(cache, "kelson")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "dev-")
}

// Stop stops the operator and removes temporary files.
func (l *Loop) Stop() {
	l.stopFollowing()
	if l.backend != nil && l.cfg.Unregister {
		if err := l.backend.Unregister(); err != nil {
			l.fail(l.subject(), err)
		}
	}
	if l.operator != nil {
		l.operator.Stop()
	}
	if l.deployed != nil {
		if err := l.deployed.node.Stop(); err != nil {
			l.fail(l.subject(), err)
		}
	}
	os.RemoveAll(l.temp)
}

// Run follows changes of files until ctx ends. Without Reload, it also returns, with an error, when
// the operator exits.
func (l *Loop) Run(ctx context.Context) error {
	var changed <-chan []string
	var watch *filewatch.Watcher
	if l.cfg.Reload {
		var err error
		if watch, err = filewatch.Watch(l.cfg.Project.Dir); err != nil {
			return fmt.Errorf("watch files of %s: %w", l.cfg.Project.Dir, err)
		}
		defer watch.Close()
		changed = watch.C()
	}
	var ended <-chan error
	if l.operator != nil {
		ended = l.operator.Ended()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if !l.cfg.Reload {
				return fmt.Errorf("%s exited: %w", l.subject(), err)
			}
			l.cfg.Log.Printf(l.subject(), "exited: %v; it restarts after the next change", err)
			ended = nil
		case n := <-l.deployed.needs():
			if err := l.deployed.supply(ctx, l, n); err != nil {
				l.fail("manifests", err)
			}
		case files := <-changed:
			before := l.operator
			l.reload(ctx, slices.DeleteFunc(files, l.isGenerated))
			if l.operator != before {
				ended = l.operator.Ended()
			}
		}
	}
}

// reload repeats the steps that changes of files affect. It logs errors; the current operator then
// keeps running.
func (l *Loop) reload(ctx context.Context, files []string) {
	if len(files) == 0 {
		return
	}
	l.cfg.Log.Printf("changed", "%s", strings.Join(files, ", "))
	code := slices.ContainsFunc(files, func(f string) bool { return !strings.HasPrefix(f, "config/") })
	if code {
		if err := l.generate(ctx, false); err != nil {
			l.fail("manifests", err)
			return
		}
	}
	if err := l.definitions(ctx); err != nil {
		l.fail("manifests", err)
		return
	}
	if code || l.deployed != nil || l.operator.HasEnded() {
		binary := ""
		if code || l.deployed == nil {
			var err error
			if binary, err = l.build(ctx); err != nil {
				l.failBuild(ctx, err)
				return
			}
		}
		if err := l.restart(ctx, binary); err != nil { // also applies a changed Deployment
			l.fail(l.subject(), err)
			return
		}
	}
	if err := l.samples(ctx); err != nil {
		l.failSamples(err)
	}
}

// failBuild logs an error of a build, and that the former program keeps running. The end of ctx
// stops a build; that is not an error.
func (l *Loop) failBuild(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.fail(l.subject(), err)
	if l.deployed != nil || l.operator != nil && !l.operator.HasEnded() {
		l.cfg.Log.Printf(l.subject(), "the former %s keeps running until the project compiles", l.subject())
	}
}

// fail logs an error.
func (l *Loop) fail(subject string, err error) {
	for line := range strings.Lines(err.Error()) {
		l.cfg.Log.Printf(subject, "✗ %s", strings.TrimRight(line, "\n"))
	}
}

// failSamples logs that samples were refused, and the next step.
func (l *Loop) failSamples(err error) {
	l.fail("samples", err)
	next := "start kelson dev again"
	if l.cfg.Reload {
		next = "kelson dev applies samples again when files change"
	}
	l.cfg.Log.Printf("samples", "correct them: %s", next)
}

// subject names the project's program in the log.
func (l *Loop) subject() string { return l.cfg.Project.Role() }

func (l *Loop) generate(ctx context.Context, first bool) error {
	if l.cfg.Generators.Skip {
		return nil
	}
	plan, err := l.cfg.Generators.Plan(l.cfg.Project.Dir, nil)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if first {
		for _, note := range plan.Notes {
			l.cfg.Log.Printf("manifests", "%s", note)
		}
	}
	if plan.Empty() {
		return nil
	}
	wrote, err := plan.WithCache(l.cache).Run(ctx)
	if first {
		for _, w := range wrote.Warnings {
			l.cfg.Log.Printf("manifests", "warning: %v", w)
		}
	}
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	for _, f := range wrote.Files {
		if l.generated[f.Path] = f.Content; f.Removed {
			delete(l.generated, f.Path)
		}
	}
	if changed := wrote.Changed(); len(changed) > 0 {
		l.cfg.Log.Printf("manifests", "generated %s", strings.Join(changed, ", "))
	} else if first {
		l.cfg.Log.Printf("manifests", "%d generated files are up to date", len(wrote.Files))
	}
	return nil
}

// isGenerated reports whether a file has the content that the last generation wrote.
func (l *Loop) isGenerated(name string) bool {
	content, ok := l.generated[name]
	if !ok {
		return false
	}
	data, err := os.ReadFile(filepath.Join(l.cfg.Project.Dir, filepath.FromSlash(name)))
	return err == nil && bytes.Equal(data, content)
}

// build returns the path of a new binary, or "" if it equals the running one.
func (l *Loop) build(ctx context.Context) (string, error) {
	l.binaries++
	name := filepath.Join(l.temp, fmt.Sprintf("operator-%d", l.binaries))
	begin := time.Now()
	stop := l.cfg.Log.Working(l.subject(), "building…")
	err := l.cfg.Project.BuildAgain(ctx, "dev", name)
	stop()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(data); sum != l.binary {
		l.binary = sum
		l.cfg.Log.Printf(l.subject(), "built in %s", time.Since(begin).Round(time.Millisecond))
		return name, nil
	}
	if l.operator != nil && l.operator.HasEnded() {
		return name, nil
	}
	return "", os.Remove(name)
}

// restart replaces the running operator by binary. It does nothing if binary is "".
func (l *Loop) restart(ctx context.Context, binary string) error {
	if l.deployed != nil {
		return l.deployed.restart(ctx, l, binary)
	}
	if binary == "" {
		return nil
	}
	l.stopFollowing()
	if l.operator != nil {
		l.operator.Stop()
		l.cfg.Log.Printf(l.subject(), "restarted")
	}
	env := []string{"ENABLE_WEBHOOKS=false"}
	switch {
	case l.backend != nil:
		env = nil
	case l.hooks != nil:
		env = l.hooks.env()
	}
	operator, err := l.cfg.Project.Run(binary, l.cfg.Kubeconfig, l.cfg.Log, env...)
	if err != nil {
		return err
	}
	l.operator = operator
	if l.backend != nil {
		return l.serve(ctx)
	}
	if l.hooks == nil {
		return nil
	}
	if err := l.hooks.served(ctx, operator.Done()); err != nil {
		return err
	}
	return l.apply(ctx, l.hooks.configurations)
}

// serve registers the running custom API server. It returns nil if the server exits first: Run
// reports the exit.
func (l *Loop) serve(ctx context.Context) error {
	served, err := l.backend.Register(ctx, l.apply, l.operator.Done())
	if err != nil || !served {
		return err
	}
	var names []string
	versions := l.backend.Versions()
	for _, v := range versions {
		names = append(names, v.String())
	}
	l.cfg.Log.Printf(l.subject(), "serves %s", strings.Join(names, ", "))
	l.unfollow, err = l.cfg.Served(ctx, versions)
	return err
}

// stopFollowing calls the function that Config.Served returned.
func (l *Loop) stopFollowing() {
	if l.unfollow != nil {
		l.unfollow()
		l.unfollow = nil
	}
}

// definitions applies the CustomResourceDefinitions that are new or changed.
func (l *Loop) definitions(ctx context.Context) error {
	further, err := l.further()
	if err != nil {
		return err
	}
	if err := l.apply(ctx, further); err != nil {
		return err
	}
	if l.deployed != nil {
		return l.deployed.definitions(ctx, l)
	}
	all, err := manifests.Definitions(l.cfg.Project.Dir)
	if err != nil {
		return err
	}
	if l.hooks != nil {
		l.hooks.convert(all)
	} else {
		withoutConversion(all)
	}
	return l.apply(ctx, all)
}

// further returns the definitions in the files of Config.Definitions, without other objects.
func (l *Loop) further() (all manifests.Objects, err error) {
	for _, name := range l.cfg.Definitions {
		found, err := manifests.Folder(name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("read definitions: %s has no manifests", name)
		}
		definitions, _ := found.Split()
		withoutConversion(definitions)
		all = append(all, definitions...)
	}
	return all, nil
}

// wantedSamples returns the samples of Config.Samples or, by default, those of the project that can
// be read, also with an error about the others.
func (l *Loop) wantedSamples() (all manifests.Objects, err error) {
	if len(l.cfg.Samples) == 0 {
		return manifests.ReadableSamples(l.cfg.Project.Dir)
	}
	for _, name := range l.cfg.Samples {
		found, err := manifests.Folder(name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("read samples: %s has no manifests", name)
		}
		all = append(all, found...)
	}
	return all, nil
}

// checkSamples reads the samples before anything is built. It returns an error if those of
// Config.Samples cannot be read. If only some of the project's own cannot, or if it has none, it
// logs that.
func (l *Loop) checkSamples() error {
	all, err := l.wantedSamples()
	if err != nil && len(l.cfg.Samples) > 0 {
		return err
	}
	if err == nil && len(all) == 0 && !l.cfg.Project.Server {
		l.cfg.Log.Printf("samples", "config/samples has none, so the operator may have nothing to do: "+
			"create objects with kubectl, or name files or folders with --samples")
	}
	l.logUnreadable(len(all), err)
	return nil
}

// logUnreadable logs, once per cause, that samples cannot be read, and how many can.
func (l *Loop) logUnreadable(read int, err error) {
	if err == nil {
		l.unreadable = ""
		return
	}
	if err.Error() == l.unreadable {
		return
	}
	l.unreadable = err.Error()
	l.fail("samples", err)
	with := "without samples"
	if read > 0 {
		with = fmt.Sprintf("with the %d other samples", read)
	}
	l.cfg.Log.Printf("samples", "continuing %s until all can be read: --samples names other files or folders", with)
}

func (l *Loop) samples(ctx context.Context) error {
	all, err := l.wantedSamples()
	if err != nil && len(l.cfg.Samples) > 0 {
		return err
	}
	l.logUnreadable(len(all), err)
	if l.deployed != nil {
		return l.deployed.samples(ctx, l, all)
	}
	return l.apply(ctx, all)
}

// apply applies the objects that are new or changed. Objects can depend on each other in any order,
// so it retries rejected objects as long as each round applies at least one.
func (l *Loop) apply(ctx context.Context, objects manifests.Objects) error {
	for {
		var rejected manifests.Objects
		var errs []error
		for _, obj := range objects {
			data, err := obj.MarshalJSON()
			if err != nil {
				return err
			}
			key, sum := obj.GetAPIVersion()+" "+obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName(),
				sha256.Sum256(data)
			if l.applied[key] == sum {
				continue
			}
			if err := l.applyOne(ctx, obj.DeepCopy()); err != nil {
				rejected = append(rejected, obj)
				errs = append(errs, fmt.Errorf("apply %s %s: %w%s", obj.GetKind(), obj.GetName(), err, l.advice(ctx, obj, err)))
				continue
			}
			l.applied[key] = sum
		}
		if len(rejected) == 0 || len(rejected) == len(objects) || ctx.Err() != nil {
			return errors.Join(errs...)
		}
		objects = rejected
	}
}

func (l *Loop) applyOne(ctx context.Context, obj *unstructured.Unstructured) error {
	c := l.cfg.Client
	if obj.GetNamespace() == "" {
		kind := obj.GroupVersionKind()
		if mapping, err := c.Mapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil &&
			mapping.Scope.Name() == "namespace" {
			obj.SetNamespace("default")
		}
	}
	return c.Apply(ctx, obj, client.ForceOwnership)
}
