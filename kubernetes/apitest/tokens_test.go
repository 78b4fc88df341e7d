package apitest_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/tokens"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	st := storetest.New(t, store.Config{})
	return st
}

// put stores an object with the fields that validation reads: name and uid.
func put(t *testing.T, st *store.Store, resource, namespace, name, uid string) {
	t.Helper()
	data := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q,"uid":%q}}`, name, namespace, uid)
	_, err := st.Commit(t.Context(), store.Op{Key: store.Key{Resource: resource, Namespace: namespace, Name: name},
		Data: data, Expect: store.AnyRevision})
	require.NoError(t, err)
}

func remove(t *testing.T, st *store.Store, resource, namespace, name string) {
	t.Helper()
	_, err := st.Commit(t.Context(), store.Op{Key: store.Key{Resource: resource, Namespace: namespace, Name: name},
		Expect: store.AnyRevision})
	require.NoError(t, err)
}

func objectMeta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

var robot = &core.ServiceAccount{ObjectMeta: objectMeta("lab", "robot", "u1")}

func issuer(t *testing.T, cfg tokens.Config) *tokens.Issuer {
	t.Helper()
	i, err := tokens.New(cfg)
	require.NoError(t, err)
	return i
}

func issue(t *testing.T, i *tokens.Issuer, bound tokens.Bound, lifetime time.Duration, audiences ...string) string {
	t.Helper()
	if audiences == nil {
		audiences = i.Audiences()
	}
	token, err := i.Issue(t.Context(), robot, bound, audiences, lifetime)
	require.NoError(t, err)
	return token
}

// check authenticates a token. refused is part of the expected error, or "" for a valid token.
func check(t *testing.T, i *tokens.Issuer, token, refused string) *authenticator.Response {
	t.Helper()
	resp, ok, err := i.AuthenticateToken(t.Context(), token)
	switch {
	case refused == "" && (err != nil || !ok):
		t.Errorf("refused: %v %v", ok, err)
	case refused != "" && (ok || err == nil || !strings.Contains(err.Error(), refused)):
		t.Errorf("got %v %v, want %q", ok, err, refused)
	}
	return resp
}

// A token that is bound to a Pod authenticates its service account, with the names of Pod and node.
func TestAuthenticate(t *testing.T) {
	st := open(t)
	put(t, st, "serviceaccounts", "lab", "robot", "u1")
	put(t, st, "pods", "lab", "web", "p1")
	i := issuer(t, tokens.Config{Store: st})
	pod := &core.Pod{ObjectMeta: objectMeta("lab", "web", "p1")}
	resp := check(t, i, issue(t, i, tokens.Bound{Pod: pod, Node: &core.Node{ObjectMeta: objectMeta("", "n", "n1")}},
		time.Hour), "")
	if resp == nil {
		return
	}
	u := resp.User
	if u.GetName() != "system:serviceaccount:lab:robot" || u.GetUID() != "u1" ||
		fmt.Sprint(u.GetGroups()) != "[system:serviceaccounts system:serviceaccounts:lab]" {
		t.Errorf("the user is %v", u)
	}
	for key, want := range map[string]string{"pod-name": "web", "pod-uid": "p1", "node-name": "n"} {
		got := u.GetExtra()["authentication.kubernetes.io/"+key]
		assert.Equalf(t, fmt.Sprint(got), "["+want+"]", "extra %s: %v, want %s", key, got, want)
	}
}

// Revocation
func TestRevocation(t *testing.T) {
	for _, test := range []struct {
		name, resource, namespace, object string
		bound                             tokens.Bound
		refused, recreated                string
	}{
		{"account", "serviceaccounts", "lab", "robot", tokens.Bound{}, `serviceaccounts "robot" not found`,
			"service account UID (new) does not match claim (u1)"},
		{"pod", "pods", "lab", "web", tokens.Bound{Pod: &core.Pod{ObjectMeta: objectMeta("lab", "web", "u1")}},
			"invalidated", "pod UID (new) does not match"},
		{"secret", "secrets", "lab", "key", tokens.Bound{
			Secret: &core.Secret{ObjectMeta: objectMeta("lab", "key", "u1")}}, "invalidated",
			"secret UID (new) does not match"},
		{"node", "nodes", "", "n", tokens.Bound{Node: &core.Node{ObjectMeta: objectMeta("", "n", "u1")}}, "invalidated",
			"node UID (new) does not match"},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := open(t)
			put(t, st, "serviceaccounts", "lab", "robot", "u1")
			put(t, st, test.resource, test.namespace, test.object, "u1")
			i := issuer(t, tokens.Config{Store: st})
			token := issue(t, i, test.bound, time.Hour)
			check(t, i, token, "")
			remove(t, st, test.resource, test.namespace, test.object)
			check(t, i, token, test.refused)
			put(t, st, test.resource, test.namespace, test.object, "new")
			check(t, i, token, test.recreated)
		})
	}
}

// Expiry
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		put(t, st, "serviceaccounts", "lab", "robot", "u1")
		put(t, st, "pods", "lab", "web", "p1")
		i := issuer(t, tokens.Config{Store: st})
		pod := tokens.Bound{Pod: &core.Pod{ObjectMeta: objectMeta("lab", "web", "p1")}}
		short, long := issue(t, i, tokens.Bound{}, 10*time.Minute), issue(t, i, pod, 3607*time.Second)
		time.Sleep(9 * time.Minute)
		check(t, i, short, "")
		time.Sleep(3 * time.Minute) // the leeway is a minute
		check(t, i, short, "expired")
		time.Sleep(300 * 24 * time.Hour)
		check(t, i, long, "") // the default lifetime of tokens in pods
	})
}

// When the clock is set back, tokens that were issued before are not valid until the clock reaches
// their time of issue again; when it is set forward, they expire early. No result is cached.
func TestTokensWhenTheClockIsSet(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	pod := tokens.Bound{Pod: &core.Pod{ObjectMeta: objectMeta("lab", "web", "p1")}}
	// Every bubble begins at the same time.
	at := func(clock time.Duration, do func(*testing.T, *tokens.Issuer)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(clock)
			st := open(t)
			put(t, st, "serviceaccounts", "lab", "robot", "u1")
			put(t, st, "pods", "lab", "web", "p1")
			do(t, issuer(t, tokens.Config{Store: st, Key: key}))
		})
	}
	var token string
	at(24*time.Hour, func(t *testing.T, i *tokens.Issuer) {
		token = issue(t, i, pod, time.Hour)
		check(t, i, token, "")
	})
	at(0, func(t *testing.T, i *tokens.Issuer) {
		check(t, i, token, "not valid yet")
		time.Sleep(24*time.Hour + time.Minute)
		check(t, i, token, "")
	})
	at(26*time.Hour, func(t *testing.T, i *tokens.Issuer) { check(t, i, token, "expired") })
}

// Audiences, issuers, key rotation
func TestAudiences(t *testing.T) {
	st := open(t)
	put(t, st, "serviceaccounts", "lab", "robot", "u1")
	oldKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	newKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	before := issuer(t, tokens.Config{Store: st, Key: oldKey, Issuers: []string{"https://old"}})
	after := issuer(t, tokens.Config{Store: st, Key: newKey, Issuers: []string{"https://new", "https://old"}})
	rotating := issuer(t, tokens.Config{Store: st, Key: newKey, Issuers: []string{"https://new", "https://old"},
		Keys: []crypto.PublicKey{oldKey.Public()}})
	token := issue(t, before, tokens.Bound{}, time.Hour)
	check(t, before, token, "")
	check(t, rotating, token, "")
	check(t, after, token, "invalid signature")
	check(t, rotating, issue(t, after, tokens.Bound{}, time.Hour), "")
	check(t, before, issue(t, before, tokens.Bound{}, time.Hour, "https://elsewhere"),
		"is invalid for the target audiences")
	for _, other := range []string{"", "opaque", "a.b.c", issue(t, after, tokens.Bound{}, time.Hour)} {
		if resp, ok, err := before.AuthenticateToken(t.Context(), other); ok || err != nil {
			t.Errorf("%q is not a token of this issuer: %v %v", other, resp, err)
		}
	}
	if _, err := tokens.New(tokens.Config{Store: st, Key: ed25519.NewKeyFromSeed(make([]byte, 32))}); err == nil {
		t.Error("want an error for a key that can't sign tokens")
	}
}
