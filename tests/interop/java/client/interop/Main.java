package interop;

import java.io.PrintStream;
import java.util.Arrays;

/** NAMESRV PREFIX [SCENARIO...]: runs the scenarios of one client version against one server. */
public final class Main {
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Harness harness = new Harness(args[0], args[1], out);
        SendScenarios.addTo(harness);
        ConsumeScenarios.addTo(harness);
        RetryScenarios.addTo(harness);
        PullScenarios.addTo(harness);
        QueryScenarios.addTo(harness);
        SqlScenarios.addTo(harness);
        FilterScenarios.addTo(harness);
        TransactionScenarios.addTo(harness);
        TraceScenarios.addTo(harness);
        TimerScenarios.addTo(harness);
        boolean good = harness.runAll(Arrays.asList(args).subList(2, args.length));
        out.flush();
        // Non-daemon threads of clients must not keep a finished run alive.
        System.exit(good ? 0 : 1);
    }
}
