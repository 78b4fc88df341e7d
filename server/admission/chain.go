package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission"
)

// Config says which plugins of the table run.
type Config struct {
	// Enable and Disable name plugins to run beside those that are on by default, and of those the ones not to run.
	Enable, Disable []string
	// Plugins is the configuration of each plugin that has one, by name; see [ReadConfiguration].
	Plugins map[string][]byte
}

// Chain runs plugins in order. It implements admission.MutationInterface and admission.ValidationInterface.
type Chain struct {
	mutating   map[admission.Operation][]admission.MutationInterface
	validating map[admission.Operation][]admission.ValidationInterface
	stops      []func()
}

var (
	_ admission.MutationInterface   = (*Chain)(nil)
	_ admission.ValidationInterface = (*Chain)(nil)
)

var operations = []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// New makes the plugins that the configuration asks for. It ends with Stop.
func New(cfg Config, deps Deps) (*Chain, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := &Chain{mutating: map[admission.Operation][]admission.MutationInterface{}, validating: map[admission.Operation][]admission.ValidationInterface{}}
	for _, line := range Plugins {
		if line.New == nil || !cfg.on(line) {
			continue
		}
		own := deps
		own.Config = cfg.Plugins[line.Name]
		plugin, err := line.New(own)
		if err != nil {
			c.Stop()
			return nil, fmt.Errorf("couldn't init admission plugin %q: %w", line.Name, err)
		}
		c.add(plugin)
	}
	return c, nil
}

// add puts a plugin at the end. What it handles is asked once: it may not change.
func (c *Chain) add(plugin admission.Interface) {
	for _, op := range operations {
		if !plugin.Handles(op) {
			continue
		}
		if m, ok := plugin.(admission.MutationInterface); ok {
			c.mutating[op] = append(c.mutating[op], m)
		}
		if v, ok := plugin.(admission.ValidationInterface); ok {
			c.validating[op] = append(c.validating[op], v)
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

// Handles says whether any plugin looks at an operation.
func (c *Chain) Handles(op admission.Operation) bool {
	return len(c.mutating[op])+len(c.validating[op]) > 0
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
	for _, plugin := range c.mutating[a.GetOperation()] {
		if err := plugin.Admit(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}

// Validate runs the validating plugins until one refuses.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, plugin := range c.validating[a.GetOperation()] {
		if err := plugin.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}
