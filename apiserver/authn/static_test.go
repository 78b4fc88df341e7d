package authn

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Tokens are kept and found by their digests: neither memory nor the time of a comparison tells of a token.
func TestStaticTokensAreDigests(t *testing.T) {
	const token = "correct-horse-battery-staple"
	all := newStaticTokens(map[string]*user.DefaultInfo{token: {Name: "ann"}})
	if printed := fmt.Sprintf("%+v", all); strings.Contains(printed, "horse") || strings.Contains(printed, fmt.Sprintf("%v", []byte(token))) {
		t.Errorf("it holds %s", printed)
	}
	for presented, want := range map[string]bool{token: true, "": false, token[:len(token)-1]: false, token + "x": false, strings.ToUpper(token): false} {
		response, ok, err := all.AuthenticateToken(t.Context(), presented)
		if ok != want || err != nil || ok && response.User.GetName() != "ann" {
			t.Errorf("%q: %v %v %v", presented, response, ok, err)
		}
	}
}
