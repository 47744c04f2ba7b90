import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.utils.internals.Exit; // here since 4.4

/**
 * Runs Apache Kafka's command line tools one after another in one JVM, because starting a JVM for each costs more than
 * the tool. A request on standard input is a list of strings: class, the tool's standard input, its arguments. The
 * answer on standard output: exit code, standard output, standard error. It ends with its input.
 */
public class Shell {
    /** Thrown by the exit procedure, since the tool must not end this JVM. */
    static final class Ended extends Error {
        Ended(int code) { super("exit " + code, null, false, false); }
    }

    static Integer code;
    static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] none) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in)));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        Exit.Procedure exit = (c, message) -> {
            if (code == null) code = c;
            throw new Ended(c);
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        while (true) {
            int n;
            try { n = in.readInt(); } catch (EOFException e) { System.exit(0); return; }
            String[] words = new String[n];
            for (int i = 0; i < n; i++) words[i] = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
            run(words, out);
            out.flush();
        }
    }

    static void run(String[] words, DataOutputStream out) throws Exception {
        ByteArrayOutputStream stdout = new ByteArrayOutputStream(), stderr = new ByteArrayOutputStream();
        code = null;
        hooks.clear();
        System.setIn(new ByteArrayInputStream(words[1].getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 2, words.length));
        } catch (java.lang.reflect.InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                e.getCause().printStackTrace();
                if (code == null) code = 1;
            }
        }
        for (Runnable hook : List.copyOf(hooks)) {
            try { hook.run(); } catch (Ended e) { /* a hook that exits */ }
        }
        System.out.flush();
        System.err.flush();
        out.writeInt(code == null ? 0 : code);
        for (ByteArrayOutputStream b : List.of(stdout, stderr)) {
            out.writeInt(b.size());
            b.writeTo(out);
        }
    }
}
