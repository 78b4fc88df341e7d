// Package controllers_test tests those controllers whose folders have no tests. The tests are one
// program because each starts a control plane: the linker takes three and a half seconds of
// processor time for such a program, and the tests of one controller take a tenth of a second.
package controllers_test
