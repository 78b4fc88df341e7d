// Package loop is the development loop: an operator project runs against a cluster, and again upon every change of its files.
//
//	types change      → generated anew → definitions applied → built → restarted
//	anything else     → generated anew → built → restarted
//	samples change    → applied
//
// What does not compile is told, and the operator that runs goes on. Webhooks are reached at the project's own port on this machine, with
// certificates made for the run; see [Config].
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

	"kelson.dev/cmd/kelson/internal/account"
	"kelson.dev/cmd/kelson/internal/changes"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/operator/client"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/loader"
)

// Config is what a loop is run with.
type Config struct {
	Project *project.Project
	// Client reaches the cluster of Kubeconfig.
	Client     client.Client
	Kubeconfig string
	Tell       *account.Account
	// Webhooks says that the project's webhooks are to be served and registered.
	Webhooks bool
	// Reload says that changes of files are followed.
	Reload bool
}

// Loop is a loop under way.
type Loop struct {
	cfg      Config
	cache    *loader.Cache
	temp     string
	binaries int // how many were built
	hooks    *webhooks

	binary   [sha256.Size]byte
	operator *project.Process
	applied  map[string][sha256.Size]byte // by kind and name

	generated map[string][]byte // by path
}

// Start generates and builds the project, and runs it. started, if any, is called when the definitions are installed, before the operator
// runs.
func Start(ctx context.Context, cfg Config, started func() error) (_ *Loop, err error) {
	l := &Loop{cfg: cfg, cache: new(loader.Cache), applied: map[string][sha256.Size]byte{}, generated: map[string][]byte{}}
	if l.temp, err = os.MkdirTemp("", "kelson-dev-"); err != nil {
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
	if cfg.Webhooks {
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

// Stop ends the operator.
func (l *Loop) Stop() {
	if l.operator != nil {
		l.operator.Stop()
	}
	os.RemoveAll(l.temp)
}

// Run follows changes until ctx ends, or, where nothing is reloaded, the operator does.
func (l *Loop) Run(ctx context.Context) error {
	var changed <-chan []string
	var watch *changes.Watcher
	if l.cfg.Reload {
		var err error
		if watch, err = changes.Watch(l.cfg.Project.Dir); err != nil {
			return fmt.Errorf("follow changes: %w", err)
		}
		defer watch.Close()
		changed = watch.C()
	}
	ended := l.operator.Ended()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if !l.cfg.Reload {
				return fmt.Errorf("the operator ended by itself: %w", err)
			}
			l.cfg.Tell.Printf("operator", "ended by itself: %v; it is run again after the next change", err)
			ended = nil
		case files := <-changed:
			before := l.operator
			l.reload(ctx, slices.DeleteFunc(files, l.isGenerated))
			if l.operator != before {
				ended = l.operator.Ended()
			}
		}
	}
}

// reload brings everything to the project as it is now. What is wrong is told; what ran goes on.
func (l *Loop) reload(ctx context.Context, files []string) {
	tell := func(subject string, err error) {
		for line := range strings.Lines(err.Error()) {
			l.cfg.Tell.Printf(subject, "✗ %s", strings.TrimRight(line, "\n"))
		}
	}
	if len(files) == 0 {
		return
	}
	l.cfg.Tell.Printf("changed", "%s", strings.Join(files, ", "))
	code := slices.ContainsFunc(files, func(f string) bool { return !strings.HasPrefix(f, "config/") })
	if code {
		if err := l.generate(ctx, false); err != nil {
			tell("manifests", err)
			return
		}
	}
	if err := l.definitions(ctx); err != nil {
		tell("manifests", err)
		return
	}
	if code || l.operator.HasEnded() {
		binary, err := l.build(ctx)
		if err != nil {
			tell("operator", err)
			return
		}
		if err := l.restart(ctx, binary); err != nil {
			tell("operator", err)
			return
		}
	}
	if err := l.samples(ctx); err != nil {
		tell("samples", err)
	}
}

func (l *Loop) generate(ctx context.Context, first bool) error {
	wrote, err := toolchain.Generate(ctx, toolchain.Options{Dir: l.cfg.Project.Dir, Cache: l.cache})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	for _, f := range wrote.Files {
		if l.generated[f.Path] = f.Content; f.Removed {
			delete(l.generated, f.Path)
		}
	}
	if changed := wrote.Changed(); len(changed) > 0 {
		l.cfg.Tell.Printf("manifests", "generated %s", strings.Join(changed, ", "))
	} else if first {
		l.cfg.Tell.Printf("manifests", "%d generated files are up to date", len(wrote.Files))
	}
	return nil
}

// isGenerated says whether a file is as it was generated, and thus no news.
func (l *Loop) isGenerated(name string) bool {
	content, ok := l.generated[name]
	if !ok {
		return false
	}
	data, err := os.ReadFile(filepath.Join(l.cfg.Project.Dir, filepath.FromSlash(name)))
	return err == nil && bytes.Equal(data, content)
}

// build gives a new binary, or nothing if it is the one that runs.
func (l *Loop) build(ctx context.Context) (string, error) {
	l.binaries++
	name := filepath.Join(l.temp, fmt.Sprintf("operator-%d", l.binaries))
	begin := time.Now()
	if err := l.cfg.Project.Build(ctx, name); err != nil {
		return "", err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(data); sum != l.binary {
		l.binary = sum
		l.cfg.Tell.Printf("operator", "built in %s", time.Since(begin).Round(time.Millisecond))
		return name, nil
	}
	if l.operator != nil && l.operator.HasEnded() {
		return name, nil
	}
	return "", os.Remove(name)
}

// restart runs a binary in place of the one that runs. Without a binary, that goes on.
func (l *Loop) restart(ctx context.Context, binary string) error {
	if binary == "" {
		return nil
	}
	if l.operator != nil {
		l.operator.Stop()
		l.cfg.Tell.Printf("operator", "stopped, and run anew")
	}
	env := []string{"ENABLE_WEBHOOKS=false"}
	if l.hooks != nil {
		env = l.hooks.env()
	}
	operator, err := l.cfg.Project.Run(binary, l.cfg.Kubeconfig, l.cfg.Tell, env...)
	if err != nil {
		return err
	}
	l.operator = operator
	if l.hooks == nil {
		return nil
	}
	if err := l.hooks.served(ctx, operator.Done()); err != nil {
		return err
	}
	return l.apply(ctx, l.hooks.configurations)
}

// definitions applies the CustomResourceDefinitions that are new or other than before.
func (l *Loop) definitions(ctx context.Context) error {
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

func (l *Loop) samples(ctx context.Context) error {
	all, err := manifests.Samples(l.cfg.Project.Dir)
	if err != nil {
		return err
	}
	return l.apply(ctx, all)
}

// apply applies what has changed. What is refused is tried again after the others, as long as any of them was not: objects may need each other.
func (l *Loop) apply(ctx context.Context, objects manifests.Objects) error {
	for {
		var refused manifests.Objects
		var errs []error
		for _, obj := range objects {
			data, err := obj.MarshalJSON()
			if err != nil {
				return err
			}
			key, sum := obj.GetAPIVersion()+" "+obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName(), sha256.Sum256(data)
			if l.applied[key] == sum {
				continue
			}
			if err := l.applyOne(ctx, obj.DeepCopy()); err != nil {
				refused = append(refused, obj)
				errs = append(errs, fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err))
				continue
			}
			l.applied[key] = sum
		}
		if len(refused) == 0 || len(refused) == len(objects) || ctx.Err() != nil {
			return errors.Join(errs...)
		}
		objects = refused
	}
}

func (l *Loop) applyOne(ctx context.Context, obj *unstructured.Unstructured) error {
	c := l.cfg.Client
	if obj.GetNamespace() == "" {
		kind := obj.GroupVersionKind()
		if mapping, err := c.Mapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil && mapping.Scope.Name() == "namespace" {
			obj.SetNamespace("default")
		}
	}
	return c.Apply(ctx, obj, client.ForceOwnership)
}
