package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/admission/webhook"
)

// Config says which plugins of a table run.
type Config struct {
	// Enable and Disable name plugins to run beside those that are on by default, and of those the ones not to run.
	Enable, Disable []string
	// Plugins is the configuration of each plugin that has one, by name; see [ReadConfiguration].
	Plugins map[string][]byte
}

// Chain runs plugins in order. It implements admission.MutationInterface and admission.ValidationInterface.
type Chain struct {
	steps map[admission.Operation][]step
	stops []func()
}

// step is one plugin in the way of an operation.
type step struct {
	mutate   admission.MutationInterface   // may be nil
	validate admission.ValidationInterface // may be nil
	idle     Idler                         // may be nil
}

// Idler is a plugin that may have nothing to do until something is written that configures it. Handles is asked once, Idle on every
// request: it must be as cheap as a look at a number. If all plugins are idle for an operation, the verbs need not prepare anything for them.
type Idler interface {
	Idle(admission.Operation) bool
}

func (s step) idles(op admission.Operation) bool { return s.idle != nil && s.idle.Idle(op) }

var (
	_ admission.MutationInterface   = (*Chain)(nil)
	_ admission.ValidationInterface = (*Chain)(nil)
)

var operations = []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// New builds the plugins of a table that the configuration asks for. Stop the chain after use.
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
		own := deps
		own.Config = cfg.Plugins[row.Name]
		plugin, err := row.New(own)
		if err != nil {
			c.Stop()
			return nil, fmt.Errorf("couldn't init admission plugin %q: %w", row.Name, err)
		}
		c.add(plugin)
	}
	return c, nil
}

// add puts a plugin at the end. What it handles is asked once: it may not change.
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

// Stop ends what plugins hold. No request may be in hand any more.
func (c *Chain) Stop() {
	for _, stop := range c.stops {
		stop()
	}
	c.stops = nil
}

// Handles says whether any plugin looks at an operation now.
func (c *Chain) Handles(op admission.Operation) bool {
	for _, s := range c.steps[op] {
		if !s.idles(op) {
			return true
		}
	}
	return false
}

// Admit runs the mutating plugins until one refuses; all of them once more if one asked for it.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := c.admit(ctx, a, o); err != nil {
		return err
	}
	again := a.GetReinvocationContext()
	if !again.ShouldReinvoke() {
		return nil
	}
	again.SetIsReinvoke()
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

// Validate runs the validating plugins until one refuses.
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
