package authn

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Tokens are stored and looked up by their digests, so that neither memory nor timing reveals them.
func TestStaticTokensAreDigests(t *testing.T) {
	const token = "correct-horse-battery-staple"
	all := newStaticTokens(map[string]*user.DefaultInfo{token: {Name: "ann"}})
	if printed := fmt.Sprintf("%+v", all); strings.Contains(printed, "horse") ||
		strings.Contains(printed, fmt.Sprintf("%v", []byte(token))) {
		t.Errorf("the map contains the token: %s", printed)
	}
	for presented, want := range map[string]bool{token: true, "": false, token[:len(token)-1]: false,
		token + "x": false, strings.ToUpper(token): false} {
		response, ok, err := all.AuthenticateToken(t.Context(), presented)
		if ok != want || err != nil || ok && response.User.GetName() != "ann" {
			t.Errorf("%q: %v %v %v", presented, response, ok, err)
		}
	}
}
