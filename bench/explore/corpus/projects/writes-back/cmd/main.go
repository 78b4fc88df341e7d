// Command main is the operator writes-back of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("writes-back") }
