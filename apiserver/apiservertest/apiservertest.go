// Package apiservertest runs servers of package apiserver in tests: in process, without ports and
// files, in real or virtual time.
//
//	func TestPizza(t *testing.T) {
//		env := apiservertest.New(t, pizza.API)
//		env.Create(t, &v1.Pizza{…})
//	}
//
// An environment of a fork begins with the state of another one at no cost, so that tests can share
// an expensive preparation:
//
//	fork := env.Fork(t)
//
// Everything works inside a testing/synctest bubble.
package apiservertest

import (
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver"
	"kelson.dev/internal/require"
)

// Env is a running server.
type Env struct {
	*apiserver.Server
	parts []apiserver.Part
}

// New starts a server in memory, which runs until the test ends. Parts that select a storage are
// replaced.
func New(t testing.TB, parts ...apiserver.Part) *Env {
	t.Helper()
	return start(t, parts, apiserver.Storage(apiserver.Memory()))
}

// Fork starts another server with the same parts, which begins with the present state of this one.
// Objects of a [apiserver.Source] are not part of the state.
func (e *Env) Fork(t testing.TB) *Env {
	t.Helper()
	return start(t, e.parts, apiserver.Fork(e.Store().Snapshot()))
}

func start(t testing.TB, parts []apiserver.Part, state apiserver.Part) *Env {
	t.Helper()
	all := append(parts[:len(parts):len(parts)], state)
	s, err := apiserver.New(t.Context(), all...)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return &Env{s, parts}
}

// Dynamic returns a client for all kinds, with all rights.
func (e *Env) Dynamic(t testing.TB) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(e.RESTConfig())
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// Do runs a transaction and fails the test on an error.
func (e *Env) Do(t testing.TB, do func(tx *apiserver.Tx) error) {
	t.Helper()
	require.NoError(t, e.Transact(t.Context(), do))
}
