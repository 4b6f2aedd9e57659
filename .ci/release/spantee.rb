# Homebrew formula of VERSION. The release workflow fills in VERSION and COMMIT.
class Spantee < Formula
  desc "Tee for traces: turns a coding agent's stream into OpenTelemetry traces"
  homepage "https://github.com/spantee/spantee"
  url "https://github.com/spantee/spantee.git", tag: "vVERSION", revision: "COMMIT"
  head "https://github.com/spantee/spantee.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", *std_go_args(ldflags: "-s -w", tags: "grpcnotrace"), "./cmd/spantee"
    generate_completions_from_executable(bin/"spantee", "completion")
    system ".ci/release/manual", man1
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/spantee --version")
    assert_equal "not a stream\n", pipe_output("#{bin}/spantee --to spans.jsonl", "not a stream\n", 0)
  end
end
