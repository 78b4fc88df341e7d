package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/admission/webhook"
)

// Config selects and configures the plugins of a table.
type Config struct {
	// Enable names plugins to run in addition to those that are on by default. Disable names
	// plugins that are on by default and must not run.
	Enable, Disable []string
	// Plugins is the configuration of each plugin that has one, by name; see [ReadConfiguration].
	Plugins map[string][]byte
}

// Chain runs plugins in order. It implements admission.MutationInterface and
// admission.ValidationInterface.
type Chain struct {
	steps map[admission.Operation][]step
	stops []func()
}

// step is one plugin of an operation.
type step struct {
	mutate   admission.MutationInterface   // may be nil
	validate admission.ValidationInterface // may be nil
	idle     Idler                         // may be nil
}

// Idler is a plugin that is inactive until an object configures it. The chain calls Handles once
// and Idle for every request, so Idle must be as cheap as reading an integer. If all plugins are
// idle for an operation, the verbs prepare nothing for admission.
type Idler interface {
	Idle(admission.Operation) bool
}

func (s step) idles(op admission.Operation) bool { return s.idle != nil && s.idle.Idle(op) }

var (
	_ admission.MutationInterface   = (*Chain)(nil)
	_ admission.ValidationInterface = (*Chain)(nil)
)

var operations = []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// New creates the enabled plugins of a table. The caller must call Stop after use.
func New(cfg Config, table Table, deps Deps) (*Chain, error) {
	if err := cfg.Check(table); err != nil {
		return nil, err
	}
	c := &Chain{steps: map[admission.Operation][]step{}}
	deps.webhookMetrics = webhook.NewMetrics(deps.Metrics)
	for _, row := range table {
		if row.New == nil || !cfg.on(row) {
			continue
		}
		pluginDeps := deps
		pluginDeps.Config = cfg.Plugins[row.Name]
		plugin, err := row.New(pluginDeps)
		if err != nil {
			c.Stop()
			return nil, fmt.Errorf("couldn't init admission plugin %q: %w", row.Name, err)
		}
		c.add(plugin)
	}
	return c, nil
}

// add appends a plugin. It calls Handles only here, so the result must not change later.
func (c *Chain) add(plugin admission.Interface) {
	var s step
	s.mutate, _ = plugin.(admission.MutationInterface)
	s.validate, _ = plugin.(admission.ValidationInterface)
	s.idle, _ = plugin.(Idler)
	for _, op := range operations {
		if plugin.Handles(op) {
			c.steps[op] = append(c.steps[op], s)
		}
	}
	if s, ok := plugin.(interface{ Stop() }); ok {
		c.stops = append(c.stops, s.Stop)
	}
}

// Stop releases the resources of plugins. No requests may be in flight.
func (c *Chain) Stop() {
	for _, stop := range c.stops {
		stop()
	}
	c.stops = nil
}

// Handles reports whether any plugin is active for an operation.
func (c *Chain) Handles(op admission.Operation) bool {
	for _, s := range c.steps[op] {
		if !s.idles(op) {
			return true
		}
	}
	return false
}

// Admit runs the mutating plugins until one rejects the request. If a plugin requested
// reinvocation, it runs all of them a second time.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := c.admit(ctx, a, o); err != nil {
		return err
	}
	reinvocation := a.GetReinvocationContext()
	if !reinvocation.ShouldReinvoke() {
		return nil
	}
	reinvocation.SetIsReinvoke()
	return c.admit(ctx, a, o)
}

func (c *Chain) admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	op := a.GetOperation()
	for _, s := range c.steps[op] {
		if s.mutate == nil || s.idles(op) {
			continue
		}
		if err := s.mutate.Admit(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}

// Validate runs the validating plugins until one rejects the request.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	op := a.GetOperation()
	for _, s := range c.steps[op] {
		if s.validate == nil || s.idles(op) {
			continue
		}
		if err := s.validate.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}
